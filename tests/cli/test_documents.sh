#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The man page and the completions are accepted by the programs that read them.
# shellcheck source=lib.sh
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
# completes WORD ARGUMENTS...: WORD is among what is offered.
completes() {
    local word=$1
    shift
    [[ $'\n'$(complete_with divergectl "$@")$'\n' == *$'\n'"$word"$'\n'* ]] || fail "completion: $*"
}
completes first-diff first-
completes --strict-structure first-diff a b --st
completes always runs --color ''
completes replace daemon ''
completes env-diff help env
record base --steps 1
completes base show ba

for shell in zsh fish; do
    expect 0 ctl --print-completion "$shell"
    if command -v "$shell" >/dev/null; then
        "$shell" -n "$dir/out" || fail "$shell does not accept its completion"
    fi
done
