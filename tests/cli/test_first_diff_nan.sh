#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A NaN is counted in text; JSON has none.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

record a
record b --nan-at 4
expect 1 ctl first-diff a b
out_has '1 NaN'
expect 1 ctl first-diff a b --json
validates first-diff
json 'o["first"]["stats"][1]["nan"] == 1 and o["first"]["stats"][0]["nan"] == 0'
