#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Many runs as a tree: branches, rates, end states, and what cannot be told.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

for run in a b c d; do
    record "$run"
done
record late1 --op-fault 6
record late2 --op-fault 6
record early --op-fault 2

expect 0 ctl tree a b c d
out_has 'Same: 4 runs, equal through boundary 8.'
err_empty
expect 0 ctl tree a b c d --json
validates tree
json 'o["result"] == "same" and len(o["runs"]) == 4 and o["tree"]["children"] == []'
json 'o["end_states"][0]["rate"]["runs"] == 4 and o["end_states"][0]["boundary"] == 8'

expect 1 ctl tree a late1 b early c late2 d
out_has '7 runs in 3 end states'
out_has '│  7 runs, equal through boundary 2'
out_has '├─ step 2, forward, record 2: scale, output 0 in fc'
out_has '1 of 7 runs (14 %, 95 % interval 3 to 51 %); nondeterministic-kernel'
out_has '├─ step 6, forward, record 2: scale, output 0 in fc'
out_has '2 of 6 runs (33 %, 95 % interval 10 to 70 %)'
out_has '└─ end state 1: 4 runs equal to the end (boundary 8): a, b, c, d'
expect 1 ctl tree a late1 b early c late2 d --json
validates tree
json 'o["result"] == "differ"'
json '[r["name"] for r in o["runs"]] == ["a", "late1", "b", "early", "c", "late2", "d"]'
json 'o["tree"]["splits"] == {"at": "step", "step": 2}'
json '[c["runs"] for c in o["tree"]["children"]] == [[0, 1, 2, 4, 5, 6], [3]]'
json 'o["tree"]["children"][1]["parts"]["first"]["op"] == "scale"'
json '[c["runs"] for c in o["tree"]["children"][0]["children"]] == [[0, 2, 4, 6], [1, 5]]'
json 'o["tree"]["children"][0]["children"][1]["rate"]["of"] == 6'

# A killed run is counted as far as it was recorded.
record killed --kill-at 4 || true
expect 1 ctl tree a killed late1 early b
out_has 'what these would do cannot be told: killed'
out_has 'rank 0 of killed did not end properly'
expect 1 ctl tree a killed late1 early b --json
validates tree
json 'o["tree"]["children"][0]["undecided"] == [1]'
json 'o["tree"]["children"][0]["children"][1]["rate"]["of"] == 3'
expect 2 ctl tree a b killed
out_has 'Cannot tell whether 3 runs are the same'
expect 2 ctl tree a b killed --json
validates tree
json 'o["result"] == "unverified" and o["reasons"] and o["tree"]["undecided"] == [2]'

# Ranks: the first that parts is told, and each can be asked alone.
two() {
    ctl run --quiet --name "$1" -- sh -c '
        WORLD_SIZE=2 RANK=1 "$0" $1 & WORLD_SIZE=2 RANK=0 "$0" && wait $!' "$producer" "$2"
}
two x ''
two y '--op-fault 3'
two z ''
expect 1 ctl tree x y z
out_has 'step 3, rank 1, forward'
expect 0 ctl tree x y z --rank 0 --json
json 'o["result"] == "same"'
ctl run --quiet --name lonely -- env WORLD_SIZE=2 RANK=0 "$producer"
expect 1 ctl tree x y z lonely --json
validates tree
json 'o["tree"]["undecided"] == [3] and o["tree"]["children"][0]["rate"]["of"] == 3'

# Recordings take part.
expect 0 ctl export early -o "$dir/early.dvg"
expect 1 ctl tree a b "$dir/early.dvg"
out_has 'early.dvg'
# Few columns wrap inside the tree.
environment+=(COLUMNS=50)
expect 1 ctl tree a late1 b early c late2 d
! grep -qE '^.{60}' <(sed 's/[│├└─]/x/g' "$dir/out") || fail 'lines are too long'
expect 64 ctl tree a
expect 64 ctl tree a b a
err_has 'a and a are the same run'
expect 64 ctl tree a b --rank 99999999999
expect 66 ctl tree a nothing
