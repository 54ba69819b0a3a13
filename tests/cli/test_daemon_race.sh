#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Commands that start a daemon at once use one.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

pids=()
for i in 1 2 3 4 5 6; do
    ctl daemon start --json >"$dir/start.$i" 2>"$dir/err.$i" &
    pids+=($!)
done
for i in "${!pids[@]}"; do
    wait "${pids[$i]}" || { cat "$dir/err.$((i + 1))" >&2; fail 'a start failed'; }
done
python3 - "$dir"/start.* <<'P' || fail 'more than one daemon'
import json
import sys

pids = {json.load(open(path))["pid"] for path in sys.argv[1:]}
sys.exit(0 if len(pids) == 1 else f"pids: {pids}")
P
