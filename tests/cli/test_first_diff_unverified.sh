#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A run that was killed: what is there agrees, and that is not enough.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

record a
ctl run --quiet --name b -- "$producer" --kill-at 5 2>/dev/null || [[ $? -eq 137 ]]
expect 2 ctl first-diff a b
out_has 'Cannot tell'
out_has 'ecause'
expect 2 ctl first-diff a b --json
validates first-diff
json 'o["result"] == "unverified" and o["reasons"] and o["verdict"]["class"] == "unverified"'
expect 0 ctl runs --json
json '[r["status"] for r in o["runs"] if r["name"] == "b"] == ["lost"]'

# A difference before the end of what is there is still a difference.
ctl run --quiet --name c -- "$producer" --kill-at 5 --op-fault 2 2>/dev/null || [[ $? -eq 137 ]]
expect 1 ctl first-diff a c
out_has 'step 2'
