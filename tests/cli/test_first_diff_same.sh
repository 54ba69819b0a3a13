#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two equal runs: exit 0, and how much was compared.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

record a
record b
expect 0 ctl first-diff a b
out_has 'Same: '
out_has '8 steps'
out_has 'none dropped'
err_empty
expect 0 ctl first-diff a b --json
validates first-diff
json 'o["result"] == "same" and o["first"] is None and o["verdict"]["class"] == "none"'
json 'o["compared"]["steps"] == 8 and o["compared"]["records"] > 40'
json 'o["a"]["name"] == "a" and o["b"]["name"] == "b"'
expect 0 ctl first-diff a a
