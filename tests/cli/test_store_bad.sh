#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Stores that cannot be read: a clear word and its exit status.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

expect 66 ctl --store "$dir/none.db" runs
err_has 'no store'
printf 'this is no database, and long enough to be looked at as one %0600d\n' 0 >"$dir/text.db"
expect 65 ctl --store "$dir/text.db" runs
out_empty
record a
ctl daemon stop >/dev/null
cp "$store" "$dir/newer.db"
python3 -c 'import sqlite3,sys; c=sqlite3.connect(sys.argv[1]); c.execute("PRAGMA user_version=9999"); c.commit()' "$dir/newer.db"
expect 65 ctl --store "$dir/newer.db" runs
err_has 'newer'
expect 0 ctl --store "$store" runs
# One of somebody else: the program runs as another user when this is root.
cp "$store" "$dir/private.db"
chmod 000 "$dir/private.db"
program=("$DVG_DIVERGECTL")
if [[ $(id -u) -eq 0 ]]; then
    public=$(mktemp -d /tmp/dvgcli-public-XXXXXX)
    trap 'rm -r "$public"; finish' EXIT
    chmod 755 "$public"
    cp "$DVG_DIVERGECTL" "$public/divergectl"
    program=(setpriv --reuid=65534 --regid=65534 --clear-groups env -i HOME=/nonexistent
        "$public/divergectl")
fi
expect 77 "${program[@]}" --store "$dir/private.db" runs
err_has 'permission'
[[ $(grep -o 'private.db' "$dir/err" | wc -l) -eq 1 ]] || fail 'the path is told twice'
# A store that nobody may write is read.
mkdir "$dir/ro"
cp "$store" "$dir/ro/x.db"
chmod 444 "$dir/ro/x.db"
expect 0 ctl --store "$dir/ro/x.db" show a
