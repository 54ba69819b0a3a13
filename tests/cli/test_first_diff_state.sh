#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A parameter that differs at a boundary is a state, at that boundary.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

record a
record b --param-fault 3
expect 1 ctl first-diff a b
out_has 'First difference: boundary 3'
out_has 'fc.weight'
expect 1 ctl first-diff a b --json
validates first-diff
json '(o["first"]["at"], o["first"]["step"], o["first"]["role"]) == ("boundary", 3, "param")'
json 'o["first"]["name"] == "fc.weight" and o["first"]["relation"] == "state"'
