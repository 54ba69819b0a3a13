#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An op whose output differs while its inputs agree: the origin, in text and JSON.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

record a
record b --op-fault 5
expect 1 ctl first-diff a b
out_has 'Agree through boundary 5'
out_has 'First difference: step 5, forward, record'
out_has 'scale'
out_has 'fc'
out_has 'model.c:42'
out_has 'output 0 float32[4]'
out_has '1 of 1 equal'
out_has 'Verdict: '
out_lacks $'\x1b'
err_empty
expect 1 ctl --json first-diff a b
validates first-diff
json 'o["result"] == "differ" and o["agree_through"]["boundary"] == 5'
json '(o["first"]["at"], o["first"]["step"], o["first"]["phase"]) == ("step", 5, "forward")'
json 'o["first"]["op"] == "scale" and o["first"]["role"] == "output" and o["first"]["scope"] == "fc"'
json 'o["first"]["relation"] == "origin" and o["first"]["inputs"]["equal"] == 1'
json 'o["first"]["checksum"][0] != o["first"]["checksum"][1]'
json 'o["first"]["dtype"] == ["float32"] * 2 and o["first"]["shape"] == [[4], [4]]'
json 'o["first"]["stats"][1]["max"] >= o["first"]["stats"][0]["max"]'
json 'o["first"]["counters"]["global_step"] == [50, 50]'

# The terminal's width is kept.
env -i "${environment[@]}" COLUMNS=60 "$DVG_DIVERGECTL" first-diff a b >"$dir/out" || true
[[ $(wc -L <"$dir/out") -le 60 ]] || fail 'a line is wider than 60 columns'
