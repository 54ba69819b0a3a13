#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts here. A script is one behaviour: the real programs, a folder of its own, an
# environment with nothing in it. $1 of a script is the test producer (producer.c).
set -euo pipefail

producer=$1
dir=$(mktemp -d /tmp/dvgcli-XXXXXX)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
store=$dir/s/diverge.db
socket=$dir/r/sock
mkdir -m 700 "$dir/home" "$dir/tmp"

# Variables of the programs under test. Sanitizers must hear their options.
environment=(HOME="$dir/home" TMPDIR="$dir/tmp" PATH=/usr/bin:/bin TZ=UTC DIVERGE_STORE="$store"
    DIVERGE_SOCKET="$socket" DIVERGE_SPOOL="$dir/spool" DIVERGE_DAEMON="$DVG_DIVERGED")
sanitizers=()
for name in ASAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS; do
    if [[ -n ${!name:-} ]]; then
        sanitizers+=("$name=${!name}")
    fi
done
environment+=("${sanitizers[@]}")

ctl() {
    env -i "${environment[@]}" "$DVG_DIVERGECTL" "$@"
}

finish() {
    local status=$?
    trap - EXIT
    ctl daemon stop --force >/dev/null 2>&1 || true
    if [[ $status -ne 0 ]]; then
        printf '%s: failed\n' "$0" >&2
        for file in out err; do
            if [[ -e $dir/$file ]]; then
                printf -- '-- %s\n' "$file" >&2
                head -c 4000 "$dir/$file" >&2
            fi
        done
        if [[ -e $dir/s/diverged.log ]]; then
            printf -- '-- diverged.log\n' >&2
            tail -20 "$dir/s/diverged.log" >&2
        fi
    fi
    rm -rf "$dir"
    exit "$status"
}
trap finish EXIT

fail() {
    printf '%s (lines %s)\n' "$*" "${BASH_LINENO[*]}" >&2
    exit 1
}

# expect STATUS COMMAND...: leaves what it printed in $dir/out and $dir/err.
expect() {
    local wanted=$1 status=0
    shift
    "$@" >"$dir/out" 2>"$dir/err" </dev/null || status=$?
    if [[ $status -ne $wanted ]]; then
        fail "$*: exit status $status, expected $wanted"
    fi
}

# Fixed strings in what was printed.
out_has() { grep -qF -- "$1" "$dir/out" || fail "stdout lacks: $1"; }
err_has() { grep -qF -- "$1" "$dir/err" || fail "stderr lacks: $1"; }
out_lacks() { ! grep -qF -- "$1" "$dir/out" || fail "stdout has: $1"; }
err_lacks() { ! grep -qF -- "$1" "$dir/err" || fail "stderr has: $1"; }
out_empty() { [[ ! -s $dir/out ]] || fail "stdout is not empty"; }
err_empty() { [[ ! -s $dir/err ]] || fail "stderr is not empty"; }

# json EXPRESSION: a Python expression over the printed object `o` is true.
json() {
    python3 -c '
import json, sys
def refuse(name): raise SystemExit(f"{name} is no JSON")
o = json.load(open(sys.argv[1], encoding="utf-8"), parse_constant=refuse)
sys.exit(0 if eval(sys.argv[2]) else f"false: {sys.argv[2]}")' "$dir/out" "$1" ||
        fail "JSON: $1"
}

# The printed object keeps the contract of schema/NAME.schema.json.
validates() {
    python3 "$here/validate.py" "$DVG_SOURCE_DIR/schema/$1.schema.json" <"$dir/out" ||
        fail "not valid: $1"
}

# record NAME [PRODUCER OPTION...]: a run of the test producer, by divergectl run.
record() {
    local name=$1
    shift
    ctl run --quiet --name "$name" -- "$producer" "$@"
}
