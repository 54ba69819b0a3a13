#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A store that is named without a socket has a daemon of its own, whatever else runs.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

expect 0 ctl daemon start
record usual

# Without DIVERGE_STORE and DIVERGE_SOCKET, --store and a relative path.
other() {
    (cd "$dir/home" && env -i HOME="$dir/home" PATH=/usr/bin:/bin DIVERGE_DAEMON="$DVG_DIVERGED" \
        DIVERGE_SPOOL="$dir/spool" XDG_RUNTIME_DIR="$dir/home" \
        "${sanitizers[@]}" "$DVG_DIVERGECTL" --store own/x.db "$@")
}
trap 'other daemon stop --force >/dev/null 2>&1; finish' EXIT
expect 0 other run --quiet --name mine -- "$producer"
expect 0 other runs --names
[[ $(<"$dir/out") == mine ]] || fail 'not in the named store'
expect 0 ctl runs --names
[[ $(<"$dir/out") == usual ]] || fail 'in the usual store'
expect 0 other daemon status --json
json "o['store'].endswith('/home/own/x.db') and o['socket'].endswith('/home/own/diverged.sock')"
expect 0 other pin mine
expect 0 other pin --remove mine
expect 0 other daemon stop
expect 0 other rm mine
