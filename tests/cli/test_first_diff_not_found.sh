#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs that are not there: 66, and the nearest names.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

expect 66 ctl first-diff a b
err_has 'no store'
record baseline
expect 66 ctl first-diff baselnie baseline
err_has 'baseline'
out_empty
expect 66 ctl first-diff baseline --json other
out_empty
expect 66 ctl show none
expect 66 ctl first-diff baseline ./none.dvg
record baseline2
expect 66 ctl show base
err_has 'baseline2'
expect 0 ctl show baseline
expect 0 ctl first-diff @prev @last
out_has 'A is baseline, B is baseline2.'
id=$(ctl runs --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["runs"][0]["run"])')
expect 0 ctl show "$id"
expect 0 ctl show "${id:0:12}"
