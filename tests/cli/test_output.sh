#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# stdout is data: colour only when wanted, and a full disk is told.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

record a
record b --op-fault 3
expect 1 ctl --color always first-diff a b
out_has $'\x1b[1m'
expect 1 ctl first-diff a b
out_lacks $'\x1b'
expect 1 ctl --color always first-diff a b --json
out_lacks $'\x1b'
[[ $(wc -l <"$dir/out") -eq 1 ]] || fail 'one object is one line'
status=0
ctl runs >/dev/full 2>"$dir/err" || status=$?
[[ $status -eq 74 ]] || fail "status $status for a full disk"
err_has 'cannot write'
# Who reads only the head is not told of an error.
ctl show a@3 --json 2>"$dir/err" | head -c 1 >/dev/null
err_empty
