#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A run that went on from a checkpoint is compared from there, found or told.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

record whole
record rest --resume 4 --steps 4
record wrong --resume 4 --steps 4 --op-fault 2
expect 0 ctl first-diff whole rest --offset 4 --json
validates first-diff
json 'o["result"] == "same" and o["offset"] == 4 and o["compared"]["steps"] == 4'
expect 0 ctl first-diff whole rest
out_has "B starts at A's boundary 4"
expect 1 ctl first-diff whole wrong
out_has 'step 6'
expect 1 ctl first-diff whole wrong --json
validates first-diff
json 'o["offset"] == 4 and o["first"]["step"] == 6 and o["first"]["op"] == "scale"'
json 'o["first"]["counters"]["global_step"] == [60, 60]'
# Told otherwise, it differs from the start.
expect 1 ctl first-diff whole rest --offset 0 --json
json 'o["first"]["at"] == "boundary" and o["first"]["step"] == 0'
