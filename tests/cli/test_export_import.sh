#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A run travels as a file and is the same where it arrives.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

record a --nan-at 6
expect 0 ctl export a -o "$dir/a.dvg" --json
json 'o["schema"] == "divergectl.export/1" and o["records"] > 40 and o["pruned"] == 0'
[[ $(stat -c %s "$dir/a.dvg") -eq $(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["bytes"])' "$dir/out") ]] ||
    fail 'the size told is not the size written'
ctl export a -o - >"$dir/piped.dvg"
cmp "$dir/a.dvg" "$dir/piped.dvg" || fail 'stdout got another file'
ctl export a -o "$dir/again.dvg" >/dev/null
cmp "$dir/a.dvg" "$dir/again.dvg" || fail 'two exports differ'

# Into the store that it came from, whole or cut off: nothing changes.
head -c "$(($(stat -c %s "$dir/a.dvg") * 2 / 3))" "$dir/a.dvg" >"$dir/torn.dvg"
ctl runs --json >"$dir/runs"
for file in a torn; do
    expect 0 ctl import "$dir/$file.dvg"
    expect 0 ctl first-diff a "$dir/a.dvg"
    expect 0 ctl runs --json
    cmp "$dir/runs" "$dir/out" || fail "importing $file.dvg changed its run"
done

# Through a daemon, into a new store. Its times are those of the run, not of the import; a start
# long ago makes them told apart.
ctl daemon stop >/dev/null
python3 - "$store" <<'EOF'
import sqlite3, sys
store = sqlite3.connect(sys.argv[1])
store.execute("UPDATE run_metadata SET value = '2026-01-02T03:04:05Z' WHERE key = 'started'")
store.execute("UPDATE segments SET unix_us = 1767323045000000 + 7000000 * segment")
store.commit()
EOF
ctl export a -o "$dir/a.dvg" >/dev/null
mv "$dir/s" "$dir/before"
expect 0 ctl import "$dir/a.dvg"
out_has 'run a'
expect 0 ctl import "$dir/a.dvg" --json
json 'o["files"][0]["name"] == "a" and o["files"][0]["complete"]'
expect 0 ctl runs --json
json 'o["total"] == 1 and o["runs"][0]["status"] == "complete" and o["runs"][0]["dropped"] == 0'
json '[(r["started_unix_us"], r["ended_unix_us"]) for r in o["runs"]] == [(1767323045000000, 1767323164000000)]'
expect 0 ctl runs
out_has '2026-01-02 03:04'
expect 0 ctl show a --json
json '{"key": "num_threads", "class": "cause", "value": "1"} in o["metadata"]'
expect 0 ctl export a -o "$dir/second.dvg"
cmp "$dir/a.dvg" "$dir/second.dvg" || fail 'exported after import, it is another file'

# Without a daemon, into a store of its own.
expect 0 ctl --store "$dir/alone/x.db" import "$dir/a.dvg"
expect 0 ctl --store "$dir/alone/x.db" first-diff a "$dir/a.dvg"
expect 0 ctl --store "$dir/alone/x.db" import "$dir/a.dvg"
expect 0 ctl --store "$dir/alone/x.db" runs --json
json 'o["total"] == 1'

expect 64 ctl export a
err_has '-o'
expect 66 ctl export none -o "$dir/none.dvg"
[[ ! -e $dir/none.dvg ]] || fail 'a file was made for nothing'
expect 73 ctl export a -o "$dir/no/such/folder/x"
