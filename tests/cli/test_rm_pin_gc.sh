#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Removing, keeping and cleaning, through the daemon and without one.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

record a
record b --op-fault 3
record c --op-fault 4

expect 0 ctl pin a
out_has 'pinned a'
expect 0 ctl runs --json
json '[r["pinned"] for r in o["runs"]] == [False, False, True]'
expect 69 ctl rm b a
err_has 'a is pinned; unpin it first: divergectl pin --remove a'
expect 0 ctl runs --json
json 'o["total"] == 3'
expect 0 ctl pin --remove a --json
json 'o["schema"] == "divergectl.pin/1" and o["unpinned"][0]["name"] == "a"'

expect 66 ctl rm a none
expect 0 ctl runs --json
json 'o["total"] == 3'
expect 0 ctl rm a b --json
json '[r["name"] for r in o["removed"]] == ["a", "b"]'
expect 0 ctl gc
out_has 'the store went from'
expect 0 ctl gc --json
json 'o["schema"] == "divergectl.gc/1" and o["bytes_after"] > 0'
expect 0 ctl first-diff c c

ctl daemon stop >/dev/null
expect 0 ctl pin c
expect 0 ctl gc
expect 69 ctl rm c
err_has 'c is pinned; unpin it first'
expect 0 ctl pin --remove c
expect 0 ctl rm c
expect 0 ctl runs
err_has 'no runs yet'
expect 69 ctl daemon status
