#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Steps, ranks, renames, and what follows the first difference.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

record a
record b --op-fault 5
expect 0 ctl first-diff a b --steps :4
expect 1 ctl first-diff a b --steps 5
expect 0 ctl first-diff a b --steps 1:3 --json
validates first-diff
json 'o["compared"]["steps"] == 3'
expect 64 ctl first-diff a b --steps 4:1
expect 64 ctl first-diff a b --steps x
expect 64 ctl first-diff a b --rank -1
expect 1 ctl first-diff a b --rank 0
expect 1 ctl first-diff a b --all --json
validates first-diff
json 'len(o["also"]) >= 1'
expect 1 ctl first-diff a b --all
out_has 'Also'

record renamed --scope classifier
expect 0 ctl first-diff a renamed
out_has 'only in B'
printf '# the head was renamed\nclassifier fc\n' >"$dir/map"
expect 0 ctl first-diff a renamed --map "$dir/map" --json
validates first-diff
json 'o["structure"] == []'
printf 'one\n' >"$dir/map"
expect 65 ctl first-diff a renamed --map "$dir/map"
err_has 'line 1'
expect 66 ctl first-diff a renamed --map "$dir/none"
