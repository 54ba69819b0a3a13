#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A signal sent to run reaches the job, and what was recorded is kept.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

for signal in TERM INT; do
    mkfifo "$dir/ready"
    # A shell's background jobs ignore SIGINT.
    env -i --default-signal=INT "${environment[@]}" "$DVG_DIVERGECTL" run --name "sig-$signal" -- "$producer" --wait \
        >"$dir/ready" 2>"$dir/err" &
    job=$!
    read -r line <"$dir/ready"
    [[ $line == ready ]] || fail 'the job did not start'
    kill -"$signal" "$job"
    status=0
    wait "$job" || status=$?
    [[ $status -eq $((128 + $(kill -l "$signal"))) ]] || fail "status $status after $signal"
    err_has "recorded as sig-$signal"
    expect 0 ctl show "sig-$signal@7"
    out_has 'fc scale'
    rm "$dir/ready"
done
