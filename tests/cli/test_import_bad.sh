#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Files that are cut off, damaged or none at all.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

record a
ctl export a -o "$dir/a.dvg" >/dev/null
ctl daemon stop >/dev/null
rm -r "$dir/s"

size=$(stat -c %s "$dir/a.dvg")
head -c "$((size * 2 / 3))" "$dir/a.dvg" >"$dir/torn.dvg"
expect 0 ctl import "$dir/torn.dvg"
out_has 'without its end'
err_has 'middle of a frame'
expect 0 ctl runs --json
json 'o["runs"][0]["status"] == "lost"'
# The whole file afterwards completes it.
expect 0 ctl import "$dir/a.dvg"
expect 0 ctl runs --json
json 'o["total"] == 1 and o["runs"][0]["status"] == "complete"'
expect 0 ctl first-diff a "$dir/a.dvg"

python3 - "$dir/a.dvg" "$dir/bad.dvg" <<'P'
import sys
data = bytearray(open(sys.argv[1], "rb").read())
data[len(data) // 2] ^= 1
open(sys.argv[2], "wb").write(data)
P
expect 65 ctl import "$dir/bad.dvg"
err_has 'damaged'
expect 65 ctl --store "$dir/x/x.db" import "$dir/bad.dvg"
printf 'hello\n' >"$dir/text"
: >"$dir/empty"
for file in text empty; do
    expect 65 ctl import "$dir/$file"
    err_has 'not a recording'
done
expect 66 ctl import "$dir/none"
expect 65 ctl import "$dir"
# Whole frames, but not in an order that is a recording: the file's fault as well.
python3 - "$dir/a.dvg" "$dir/headless.dvg" <<'P'
import struct
import sys

data = open(sys.argv[1], "rb").read()
first = 16 + 32 + struct.unpack_from("<I", data, 16 + 8)[0]
open(sys.argv[2], "wb").write(data[:16] + data[first:])
P
expect 65 ctl import "$dir/headless.dvg"
err_has 'headless.dvg'
expect 65 ctl first-diff "$dir/headless.dvg" "$dir/a.dvg"
err_has 'before HELLO'
