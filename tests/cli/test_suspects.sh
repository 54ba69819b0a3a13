#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ops that give another output for the same inputs, over all runs or those that are named.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

op() {
    local name=$1
    shift
    ctl run --quiet --level op --name "$name" -- "$producer" "$@"
}
op a
expect 2 ctl suspects
out_has 'Cannot tell'
out_has 'no op was called twice'
op b
expect 0 ctl suspects
out_has 'No suspects'
err_empty
expect 0 ctl suspects --json
validates suspects
json 'o["result"] == "none" and o["suspects"] == [] and o["reasons"] == []'
json 'o["scanned"]["runs"] == 2 and o["scanned"]["steps"] == 16 and o["scanned"]["shared"] == 8'
json 'o["scanned"]["calls"] == 16 and o["scanned"]["repeated"] == 8'

# The same inputs and another output: in one step of the one, in another of the other.
op c --op-fault 5
op d --op-fault 5 --threads 2
expect 1 ctl suspects
out_has 'scale'
expect 1 ctl suspects --json
validates suspects
json '[s["op"] for s in o["suspects"]] == ["scale"]'
json 'o["suspects"][0]["rate"]["differing"] == 1 and o["suspects"][0]["rate"]["of"] == 10'
json '0 < o["suspects"][0]["rate"]["low"] < 0.1 < o["suspects"][0]["rate"]["high"] < 1'
json 'o["suspects"][0]["where"]["blame"] == "one-place"'
json '[e["step"] for e in o["suspects"][0]["example"]] == [5, 5]'
json '[e["name"] for e in o["suspects"][0]["example"]] == ["a", "c"]'
json 'len({e["checksum"] for e in o["suspects"][0]["example"]}) == 2'
json 'o["suspects"][0]["example"][0]["source"] == "model.c:42"'
json 'o["suspects"][0]["example"][0]["arguments"] == "alpha=1" and o["suspects"][0]["known"] is None'

# Their arguments differ, which is a cause.
expect 1 ctl suspects a d --json
json 'o["scanned"]["runs"] == 2 and o["suspects"][0]["same_causes"] == 0'
expect 0 ctl suspects a b
# A recording is looked at as a run is.
ctl export c -o "$dir/c.dvg" >/dev/null
expect 1 ctl suspects a "$dir/c.dvg" --json
json 'o["suspects"][0]["op"] == "scale"'

# Runs without ops; a run that is not there; one that is named twice.
ctl run --quiet --level step --name shallow -- "$producer"
expect 2 ctl suspects shallow --json
validates suspects
json 'o["result"] == "unverified" and "--level op" in o["reasons"][0]'
expect 66 ctl suspects nosuch
expect 64 ctl suspects a a
err_has 'the same run'
# A killed run lost what came after: no suspects is then no answer.
expect 137 op killed --kill-at 3
expect 2 ctl suspects a killed --json
validates suspects
json 'o["scanned"]["incomplete"] > 0 and o["reasons"]'

# The terminal's width is kept.
env -i "${environment[@]}" COLUMNS=60 "$DVG_DIVERGECTL" suspects a c >"$dir/out" || true
out_has 'example:'
