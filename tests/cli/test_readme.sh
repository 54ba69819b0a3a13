#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The documents are true: commands that README.md names exist, links lead somewhere, its C runs.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

root=$DVG_SOURCE_DIR
readme=$root/README.md
program=$DVG_BUILD_DIR/tests/cli/cli_readme # of readme.c.in

# ---- divergectl: the names in the table's first column, and in running text ----

# shellcheck disable=SC2016 # backticks of Markdown
table_commands() {
    sed -nE 's/^\| (`divergectl .*`) \| .*/\1/p' "$readme" | grep -oE '`[^`]+`' |
        sed -E 's/^`(divergectl )?([a-z-]+).*/\2/'
}
named=$(table_commands | sort -u)
[[ $(wc -l <<<"$named") -gt 10 ]] || fail "the table of commands was not found: $named"
while read -r command; do
    expect 0 ctl help "$command"
done < <(grep -oE 'divergectl [a-z][a-z-]+' "$readme" | cut -d' ' -f2 && table_commands)

# And every command that there is has its place in the table.
expect 0 ctl --help
while read -r command; do
    [[ $command == help ]] || grep -qx -- "$command" <<<"$named" || fail "README lacks $command"
done < <(sed -nE 's/^  ([a-z-]+)  +[A-Z].*/\1/p' "$dir/out")

# Options of the commands that are written out.
while read -r _ command rest; do
    ctl help "$command" >"$dir/help"
    for option in ${rest%% -- *}; do
        [[ $option != --* ]] || grep -q -- "$option" "$dir/help" || fail "$command has no $option"
    done
done < <(grep -E '^    divergectl ' "$readme")

# ---- ./dev ----

expect 0 "$root/dev" help
for command in demo test $(grep -oE '\./dev [a-z]+' "$readme" | cut -d' ' -f2); do
    grep -qE "^  ([a-z]+, )?$command\b" "$dir/out" || fail "./dev has no $command"
done
while read -r _ _ preset; do
    grep -q "\"name\": \"$preset\"" "$root/CMakePresets.json" || fail "no preset $preset"
done < <(grep -ohE '\./dev build [a-z]+' "$readme" "$root/HACKING.md")

# ---- links of all documents ----

links=0
while IFS=: read -r file target; do
    target=${target#*"("}
    target=${target%%[#)]*}
    [[ -z $target || $target == *://* ]] && continue
    [[ -e $(dirname "$file")/$target ]] || fail "$file: no $target"
    links=$((links + 1))
done < <(grep -HoE "\]\([^() ]+\)" "$root"/*.md "$root"/docs/*.md "$root"/schema/*.md \
    "$root"/client/examples/data/*.md)
[[ $links -gt 8 ]] || fail "only $links links were found"

# ---- the example: C, C++, and what it records ----

c++ -std=c++17 -Wall -Wextra -Werror -fsyntax-only -I"$root/include" -x c++ \
    "$DVG_BUILD_DIR/tests/cli/readme.c" || fail 'the example is no C++17'
for run in a b; do
    expect 0 ctl run --name "$run" -- "$program"
    err_has "recorded as $run"
done
expect 0 ctl first-diff a b
out_has 'Same: 4 boundaries, 3 steps'
expect 0 ctl show a@0
out_has 'fc1 linear'
