#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run passes the job's exit status and signals through.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

expect 0 ctl run -- true
expect 3 ctl run -- sh -c 'exit 3'
expect 127 ctl run -- /nonexistent/program
err_has 'cannot run /nonexistent/program'
err_lacks 'nothing was recorded'
expect 126 ctl run -- "$dir/home"
err_lacks 'nothing was recorded'
expect 143 ctl run -- sh -c 'kill -TERM $$'
expect 137 ctl run -- sh -c 'kill -KILL $$'
expect 5 ctl run --name failing -- "$producer" --status 5
expect 0 ctl runs --json
json 'o["runs"][0]["name"] == "failing" and o["runs"][0]["status"] == "failed"'

# Options behind the command are its own; stdin, stdout and stderr are the job's.
[[ $(printf 'in' | ctl run -- sh -c 'cat; echo "$1"' sh --name 2>/dev/null) == 'in--name' ]] || fail 'stdio'
# The job is told where to record to.
expect 0 ctl run --name n --level step --steps 1:2 -- env
out_has 'DIVERGE_RUN_NAME=n'
out_has 'DIVERGE_LEVEL=step'
out_has 'DIVERGE_STEPS=1:2'
out_has "DIVERGE_SOCKET=$socket"
grep -qE '^DIVERGE_RUN_ID=[0-9a-f]{32}$' "$dir/out" || fail 'no run id'
