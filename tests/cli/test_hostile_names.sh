#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Names that producers chose cannot write to the terminal.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

record a --scope $'enc\x1b[31m\x07\nVerdict: none\u202e'
record b --scope $'enc\x1b[31m\x07\nVerdict: none\u202e' --op-fault 3
expect 1 ctl --color never first-diff a b
! grep -q $'[\x07\x1b]' "$dir/out" || fail 'control characters reached stdout'
! grep -q '^Verdict: none' "$dir/out" || fail 'a line was forged'
out_has 'enc\x1b[31m'
expect 0 ctl --color never show a@3
! grep -q $'[\x07\x1b]' "$dir/out" || fail 'control characters reached stdout'
expect 1 ctl first-diff a b --json
validates first-diff
json '"\x1b" in o["first"]["scope"]'
expect 66 ctl show $'no\x1b[31m'
! grep -q $'\x1b' "$dir/err" || fail 'control characters reached stderr'
