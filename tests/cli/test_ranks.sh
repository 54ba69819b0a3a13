#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two ranks are one run; each has its own first difference, and travels with the run.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# two NAME "OPTIONS OF RANK 0" "OPTIONS OF RANK 1"
two() {
    ctl run --quiet --name "$1" -- sh -c '
        WORLD_SIZE=2 RANK=1 "$0" $2 & WORLD_SIZE=2 RANK=0 "$0" $1 && wait $!' "$producer" "$2" "$3"
}
two a '' '--threads 2'
two b '--op-fault 5' '--op-fault 3 --threads 2'
expect 0 ctl runs --json
json '[(r["world"], r["ranks"], r["status"]) for r in o["runs"]] == [(2, 2, "complete")] * 2'
expect 1 ctl first-diff a b
out_has 'By rank'
out_has 'rank 0'
out_has 'rank 1'
expect 1 ctl first-diff a b --json
validates first-diff
json 'sorted((c["rank"], c["step"]) for c in o["candidates"]) == [(0, 5), (1, 3)]'
expect 1 ctl first-diff a b --rank 0 --json
json 'o["first"]["rank"] == 0 and o["first"]["step"] == 5 and o["compared"]["ranks"] == 1'
expect 0 ctl show a@3.1 --json
json '{r["rank"] for r in o["records"]} == {1}'
expect 0 ctl show a@3
out_has 'RANK'

expect 0 ctl export a -o "$dir/a.dvg" --json
json 'o["streams"] == 2'
expect 0 ctl first-diff a "$dir/a.dvg" --json
json 'o["result"] == "same" and o["compared"]["ranks"] == 2'
expect 0 ctl env-diff a "$dir/a.dvg"

# A rank that is not there: what is there agrees, and that is not enough.
ctl run --quiet --name c -- env WORLD_SIZE=2 RANK=0 "$producer"
expect 2 ctl first-diff a c --json
validates first-diff
json 'o["reasons"]'

# Two processes that both take themselves for rank 0: one stands, and that is told.
mkfifo "$dir/ready" "$dir/go"
ctl run --quiet --name shared -- sh -c '
    "$0" --pause-at 4 <"$1/go" >"$1/ready" &
    exec 9>"$1/go"
    read -r line <"$1/ready"
    "$0" && echo >&9 && exec 9>&- && wait $!' "$producer" "$dir"
expect 0 ctl show shared
out_has 'rank 0 was recorded by 2 processes at once'
expect 0 ctl show shared --json
json '[s["processes_at_once"] for s in o["streams"]] == [2]'
ctl run --quiet --name alone -- "$producer"
for pair in 'alone shared' 'shared alone'; do
    # shellcheck disable=SC2086
    expect 2 ctl first-diff $pair
    out_has 'was recorded by 2 processes at once'
done

# Restarts, one after the other, are no such thing; nor is a run that was imported beside itself.
ctl run --quiet --name restarted -- sh -c '"$0" && "$0"' "$producer"
expect 0 ctl first-diff alone restarted
ctl export restarted -o "$dir/restarted.dvg" >/dev/null
expect 0 ctl import "$dir/restarted.dvg"
expect 0 ctl first-diff alone restarted
expect 0 ctl show restarted --json
json '[s["processes_at_once"] for s in o["streams"]] == [1]'
