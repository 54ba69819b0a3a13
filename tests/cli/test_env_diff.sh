#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The environments of two runs, causes first.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

record a
record b --threads 2
expect 1 ctl env-diff a b
out_has 'num_threads'
out_has 'A 1   B 2'
expect 1 ctl env-diff a b --json
json 'o["schema"] == "divergectl.env-diff/1"'
json '{"key": "num_threads", "class": "cause", "a": "1", "b": "2"} in o["environment"]'
json 'o["environment"][0]["class"] == "cause"'
expect 0 ctl env-diff a a
record c
expect 0 ctl env-diff a c
out_has 'pid'
expect 0 ctl env-diff a a
out_has '0 keys different'
expect 0 ctl first-diff a b
out_has 'num_threads (A 1, B 2)'
