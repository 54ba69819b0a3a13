#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Peers that break each rule of the protocol are told so; honest runs beside them are whole.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

record before --steps 20
DIVERGE_SOCKET=$socket PYTHONDONTWRITEBYTECODE=1 python3 "$here/hostile_peers.py" ||
    fail 'the daemon did not keep to the protocol'
record after --steps 20
expect 0 ctl first-diff before after
# What they left is listed, shown and survives the daemon's end.
expect 0 ctl runs
expect 0 ctl show odd@0
out_has 'float32[]'
out_has 'float32[0]'
expect 0 ctl first-diff odd odd
expect 0 ctl show many
ctl daemon stop >/dev/null
expect 0 ctl first-diff before after
python3 - "$store" <<'P' || fail 'the store is damaged'
import sqlite3
import sys

rows = sqlite3.connect(sys.argv[1]).execute("PRAGMA integrity_check").fetchall()
sys.exit(0 if rows == [("ok",)] else str(rows[:5]))
P
