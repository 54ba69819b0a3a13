#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Differences that repeats of A have as well, with a program that really races ($2).
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

racing=$2
for i in 1 2 3 4 5 6; do
    ctl run --quiet --level op --name "race$i" -- "$racing"
done

# Two threads may happen to add in one order: take a pair that differs.
other=
for i in 2 3 4 5 6; do
    if ! ctl first-diff race1 "race$i" >/dev/null; then
        other=race$i
        break
    fi
done
[[ -n $other ]] || fail "six racing runs are equal"

# Repeats are found by causes and name; alone they excuse nothing.
expect 1 ctl first-diff race1 "$other" --json
validates first-diff
json 'o["result"] == "differ" and len(o["noise"]["repeats"]) == 4'
json 'o["noise"]["complete"] and o["noise"]["noisy"] > 0 and len(o["noise"]["growth"]) >= 1'
json 'o["verdict"]["class"] == "nondeterministic-kernel"'
json 'o["first"]["op"] == "embedding_backward"'
json 'any("repeat" in e for e in o["verdict"]["evidence"])'

expect 0 ctl first-diff race1 "$other" --tolerance 0.001
out_has 'Within noise'
out_has 'tolerance 0.001'
out_has 'First difference'
expect 0 ctl first-diff race1 "$other" --tolerance 0.001 --json
validates first-diff
json 'o["result"] == "within-noise" and o["beyond_noise"] is None and o["first"] is not None'
json 'o["noise"]["first"]["band"] == "a few ulp of float32"'

# A real change is not noise.
names=()
for i in 2 3 4 5 6; do
    if [[ race$i != "$other" ]]; then
        names+=("race$i")
    fi
done
list=$(IFS=,; echo "${names[*]}")
expect 0 ctl first-diff race1 "$other" --noise "$list" --json
json 'o["result"] == "within-noise"'
json '",".join(o["noise"]["repeats"]) == "'"$list"'"'
record a
record b --op-fault 5
record a.2
expect 1 ctl first-diff a b --noise a.2 --json
validates first-diff
json 'o["result"] == "differ" and o["beyond_noise"]["step"] == 5 and o["first"]["step"] == 5'
expect 1 ctl first-diff a b --noise @repeats
out_has 'This difference is beyond noise'
out_has '1 repeat of A (a.2)'

# Nothing to know it from.
record alone
record another --op-fault 5
expect 1 ctl first-diff alone another
out_has 'unknown; run: divergectl run --like alone'
expect 66 ctl first-diff alone another --noise @repeats
err_has 'unknown'
expect 66 ctl first-diff a b --noise nobody
expect 64 ctl first-diff a b --noise a.2,
for tolerance in x 0 -1 nan inf 2 1e-5x; do
    expect 64 ctl first-diff a b --tolerance "$tolerance"
done
