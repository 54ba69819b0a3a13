#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A scalar that differs shows both values.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

record a
record b --lr-fault 2
expect 1 ctl first-diff a b
out_has 'A 0.0095   B 0.009'
out_has 'hyperparameter'
expect 1 ctl first-diff a b --json
validates first-diff
json 'o["first"]["name"] == "lr" and o["first"]["step"] == 2 and o["first"]["role"] == "scalar"'
json '[s["value"] for s in o["first"]["stats"]] == [0.0095, 0.009]'
json 'o["verdict"]["class"] == "hyperparameter"'
