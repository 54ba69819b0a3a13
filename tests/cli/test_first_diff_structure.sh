#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An op that only one run has is a note; a difference with --strict-structure.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

record a
record b --extra-op 2
expect 0 ctl first-diff a b
out_has 'Same: '
out_has 'only in B'
expect 0 ctl first-diff a b --json
validates first-diff
json 'o["result"] == "same" and len(o["structure"]) >= 1'
expect 1 ctl first-diff a b --strict-structure
expect 1 ctl first-diff a b --strict-structure --json
validates first-diff
json 'o["result"] == "differ"'
