#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run --like repeats the settings of a run.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

ctl run --quiet --name base --level step -- "$producer"
expect 0 ctl run --like base -- "$producer"
err_has 'recorded as base.2'
expect 0 ctl show base.2 --json
json 'o["streams"][0]["level"] == "step"'
expect 0 ctl first-diff base base.2
expect 66 ctl run --like none -- "$producer"
