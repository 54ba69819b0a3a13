#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A difference is noted in the store, so that retention keeps its surroundings.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

record a
record b --op-fault 5
expect 1 ctl first-diff a b
ctl daemon stop >/dev/null
python3 - "$store" <<'P' || fail 'no difference is noted'
import sqlite3
import sys

rows = sqlite3.connect(sys.argv[1]).execute("SELECT segment FROM differences").fetchall()
sys.exit(0 if rows == [(12,)] else f"differences: {rows}")
P
# Without a daemon the answer is the same, and nothing is said about it.
expect 1 ctl first-diff a b
err_empty
