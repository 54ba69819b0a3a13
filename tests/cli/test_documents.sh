# SPDX-License-Identifier: Apache-2.0
# The man page and the completions are accepted by the programs that read them.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

expect 0 ctl --print-man
if command -v mandoc >/dev/null; then
    mandoc -T lint -W warning "$dir/out" >"$dir/err" 2>&1 || fail 'mandoc has complaints'
    mandoc -T utf8 "$dir/out" | col -bx >"$dir/page"
    grep -q 'divergectl first-diff' "$dir/page" || fail 'the page lacks first-diff'
fi
expect 0 ctl --print-completion bash
bash -n "$dir/out" || fail 'bash does not accept its completion'
cp "$dir/out" "$dir/completion"

# The completion at work: commands, options, choices, actions.
complete_with() {
    env -i PATH="$(dirname "$DVG_DIVERGECTL"):/usr/bin:/bin" DIVERGE_STORE="$store" bash -c '
        source "$1"; shift
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _divergectl; printf "%s\n" "${COMPREPLY[@]}"' \
        _ "$dir/completion" "$@"
}
[[ $(complete_with divergectl first-) == first-diff ]] || fail 'first-'
complete_with divergectl first-diff a b --st | grep -qx -- --strict-structure || fail '--st'
complete_with divergectl runs --color '' | grep -qx always || fail '--color'
complete_with divergectl daemon '' | grep -qx replace || fail 'daemon'
complete_with divergectl help env | grep -qx env-diff || fail 'help'
record base --steps 1
complete_with divergectl show ba | grep -qx base || fail 'runs'

for shell in zsh fish; do
    expect 0 ctl --print-completion "$shell"
    if command -v "$shell" >/dev/null; then
        "$shell" -n "$dir/out" || fail "$shell does not accept its completion"
    fi
done
