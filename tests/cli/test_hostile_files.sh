#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Damaged stores and recordings: a status of the table and a reason, never a crash or a wait.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

record a --steps 4
record b --steps 4 --op-fault 2
expect 0 ctl export a -o "$dir/a.dvg"
expect 0 ctl export b -o "$dir/b.dvg"
ctl daemon stop >/dev/null
cp "$store" "$dir/whole.db"
damage() {
    env -i "${environment[@]}" python3 "$here/hostile_files.py" "$DVG_DIVERGECTL" "$@" ||
        fail "damaged $1"
}
damage store "$dir/whole.db" - 100
damage recording "$dir/a.dvg" "$dir/b.dvg" 80
# A view without end where the runs should be: refused at once, with what to do.
python3 - "$dir/whole.db" <<'P'
import sqlite3
import sys

sqlite3.connect(sys.argv[1]).executescript("""
ALTER TABLE runs RENAME TO hidden;
CREATE VIEW runs AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)
SELECT x AS id, zeroblob(16) AS run_id, 'n' || x AS name, 'complete' AS status, 1 AS world,
       0 AS started_unix_us, 0 AS ended_unix_us, 0 AS pinned FROM c;
""")
P
for command in runs 'first-diff a b' 'show a'; do
    # shellcheck disable=SC2086
    expect 65 ctl --store "$dir/whole.db" $command
    err_has 'keep a copy'
done
# The originals are as they were.
expect 1 ctl first-diff a b
expect 1 ctl first-diff "$dir/a.dvg" "$dir/b.dvg"
