#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The daemon is started, shown, replaced and stopped.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

expect 69 ctl daemon status
out_has 'not running'
expect 0 ctl daemon stop
expect 0 ctl daemon start
out_has 'started'
out_has 'pid'
expect 0 ctl daemon start
out_has 'already running'
expect 0 ctl daemon status --json
json 'o["state"] == "running" and o["pid"] > 1'
first=$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["pid"])' "$dir/out")
expect 0 ctl status --json
json 'o["daemon"]["pid"] == '"$first"' and o["store"]["exists"]'
expect 0 ctl daemon replace --json
json 'o["pid"] != '"$first"
second=$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["pid"])' "$dir/out")
expect 0 ctl daemon status --json
json 'o["pid"] == '"$second"
expect 0 ctl daemon stop
out_has 'stopped'
expect 69 ctl daemon status
expect 0 ctl status
out_has 'not running'
