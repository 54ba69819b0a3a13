#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What is recorded, listed and looked into.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

record base
record other --threads 2
expect 0 ctl runs
out_has 'NAME'
out_has 'complete'
expect 0 ctl runs --names
[[ $(<"$dir/out") == $'other\nbase' ]] || fail 'names, newest first'
expect 0 ctl runs -n 1
err_has '1 older run not shown'
expect 0 ctl runs -n 1 --json
json 'o["schema"] == "divergectl.runs/1" and o["total"] == 2 and len(o["runs"]) == 1'
json 'o["runs"][0]["name"] == "other" and o["runs"][0]["last_boundary"] == 8'
json 'o["runs"][0]["status"] == "complete" and o["runs"][0]["dropped"] == 0'

expect 0 ctl show base
out_has 'num_threads = 1'
out_has 'complete'
expect 0 ctl show base --json
json 'o["name"] == "base" and o["streams"][0]["rank"] == 0 and o["streams"][0]["ended"]'
json '{"key": "num_threads", "class": "cause", "value": "1"} in o["metadata"]'
expect 0 ctl show base@3
out_has 'fc scale'
out_has 'model.c:42'
expect 0 ctl show base@3 --json
json 'o["segment"] == "step 3" and o["index"] == 8 and o["total"] == len(o["records"])'
json '[r["stats"]["value"] for r in o["records"] if r["name"] == "lr"] == [0.0095]'
json '[r["seq"] for r in o["records"]] == sorted(r["seq"] for r in o["records"])'
expect 0 ctl show base@3 --tier op --json
json '{r["tier"] for r in o["records"]} == {"op"}'
expect 0 ctl show base@b8.0
out_has 'param fc.weight'
expect 0 ctl show base@3 -n 1
err_has 'not shown'
expect 66 ctl show base@99
expect 66 ctl show base@3.7
expect 64 ctl show base@x
expect 64 ctl show base --tier op
