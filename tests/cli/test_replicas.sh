#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The ranks of one run against each other: which one drifts, from which boundary on, where it ran.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# ranks NAME "OPTIONS OF RANK 0" "OF RANK 1"...
ranks() {
    ctl run --quiet --name "$1" -- sh -c '
        rank=0
        for options; do
            WORLD_SIZE=$# RANK=$rank "$0" $options &
            rank=$((rank + 1))
        done
        wait' "$producer" "${@:2}"
}

ranks good '' '' ''
expect 0 ctl replicas good
out_has 'Same: all copies agree through boundary 8 (3 ranks'
err_empty
expect 0 ctl replicas good --json
validates replicas
json 'o["result"] == "same" and o["groups"] == [{"name": "", "ranks": [0, 1, 2]}]'
json 'o["compared"]["boundaries"] == 9 and o["first"] is None and o["verdict"]["class"] == "none"'

ranks bad '' '' '--param-fault 3'
expect 1 ctl replicas bad
out_has 'All copies agree through boundary 2'
out_has 'First difference: boundary 3'
out_has 'fc.weight'
out_has '2 ranks agree; rank 2 (host '
out_has 'Verdict: desync, parameter (certain).'
expect 1 ctl replicas bad --json
validates replicas
json 'o["result"] == "differ" and o["agree_through"]["boundary"] == 2'
json 'o["first"]["at"] == "boundary" and o["first"]["step"] == 3 and o["first"]["rank"] == 2'
json 'o["ranks"] == [0, 2] and o["classes"] == [[0, 1], [2]] and o["odd"][0]["rank"] == 2'
json 'o["odd"][0]["host"]'

# The first rank can be the odd one; two ranks have no majority.
ranks first '--param-fault 3' '' ''
expect 1 ctl replicas first --json
json 'o["ranks"] == [1, 0] and o["classes"] == [[1, 2], [0]]'
ranks pair '' '--param-fault 3'
expect 1 ctl replicas pair
out_has 'rank 0 (host '
out_has 'differ.'

# What cannot be told: one rank, a rank that is missing, a run that is not there.
record single
expect 2 ctl replicas single
out_has 'Cannot tell'
out_has 'there is one rank'
expect 2 ctl replicas single --json
validates replicas
ctl run --quiet --name lonely -- env WORLD_SIZE=2 RANK=0 "$producer"
expect 2 ctl replicas lonely
out_has '2 ranks were declared, 1 recorded'

# A recording does as well as a run.
expect 0 ctl export bad -o "$dir/bad.dvg"
expect 1 ctl replicas "$dir/bad.dvg"
expect 64 ctl replicas
expect 64 ctl replicas a b
expect 66 ctl replicas nothing
