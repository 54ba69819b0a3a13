#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Recordings are compared as runs are; the store is left alone.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

record a
record b --op-fault 5
expect 0 ctl export a -o "$dir/a.dvg"
expect 0 ctl export b -o "$dir/b.dvg"
expect 1 ctl first-diff "$dir/a.dvg" "$dir/b.dvg" --json
validates first-diff
json 'o["first"]["step"] == 5 and o["first"]["op"] == "scale" and o["result"] == "differ"'
expect 0 ctl first-diff a "$dir/a.dvg"
out_has "A is a, B is $dir/a.dvg (run a)."
expect 1 ctl first-diff "$dir/a.dvg" b
(cd "$dir" && expect 0 ctl first-diff a.dvg a)
ctl daemon stop >/dev/null
rm -r "$dir/s"
expect 1 ctl first-diff "$dir/a.dvg" "$dir/b.dvg"
[[ ! -e $dir/s ]] || fail 'a store was made'
rmdir "$dir/tmp" || fail 'a temporary store was left'
mkdir -m 700 "$dir/tmp"

# One that a job wrote by itself.
env -i "${environment[@]}" DIVERGE_RECORDING="$dir/c.dvg" DIVERGE_RUN_NAME=c "$producer" --op-fault 2
expect 1 ctl first-diff "$dir/a.dvg" "$dir/c.dvg" --json
validates first-diff
json 'o["first"]["step"] == 2'

printf 'not a recording\n' >"$dir/text"
expect 65 ctl first-diff "$dir/text" "$dir/a.dvg"
err_has 'not a recording'
expect 65 ctl first-diff "$dir" "$dir/a.dvg"
head -c -100 "$dir/a.dvg" >"$dir/torn.dvg"
expect 2 ctl first-diff "$dir/a.dvg" "$dir/torn.dvg"
err_has 'middle of a frame'
