#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: demo.sh BUILD_FOLDER
#
# Trains digits_train four times against a private daemon in a temporary folder: twice with two
# threads that add gradients in no fixed order, twice with one thread. The first pair must part,
# and first-diff must say where; the second must be equal to the last bit.
set -euo pipefail

build=$(readlink -f "${1:?usage: demo.sh BUILD_FOLDER}")
data=$(readlink -f "$(dirname "${BASH_SOURCE[0]}")")/data/digits.txt
folder=$(mktemp -d /tmp/diverge-demo-XXXXXX)
PATH=$build/bin:$build/client/examples:$PATH
export DIVERGE_STORE=$folder/diverge.db DIVERGE_SOCKET=$folder/socket DIVERGE_SPOOL=$folder/spool
unset DIVERGE_RUN_ID DIVERGE_RUN_NAME DIVERGE_DISABLE DIVERGE_LEVEL DIVERGE_STEPS DIVERGE_RECORDING

finish() {
    divergectl daemon stop >/dev/null 2>&1 || true
    rm -rf "$folder"
}
trap finish EXIT

# show COMMAND...: prints it as a person would have typed it, and runs it.
show() {
    printf '\n$ %s\n' "$*"
    "$@"
}

# expect STATUS COMMAND...
expect() {
    local wanted=$1 status=0
    shift
    show "$@" || status=$?
    if [[ $status -ne $wanted ]]; then
        printf '\ndemo: exit status %d, expected %d\n' "$status" "$wanted" >&2
        exit 1
    fi
    printf '[exit status %d, as expected]\n' "$status"
}

cd "$(dirname "$data")"
show divergectl daemon start

# train NAME THREADS
train() {
    show divergectl run --quiet --name "$1" --level op -- digits_train --steps 300 --threads "$2"
}

printf '\n-- The same command twice, two threads adding gradients in no fixed order --\n'
train two-threads-a 2
train two-threads-b 2
expect 1 divergectl first-diff two-threads-a two-threads-b

printf '\n-- Control: the same command twice, one thread --\n'
train one-thread-a 1
train one-thread-b 1
expect 0 divergectl first-diff one-thread-a one-thread-b

printf '\nThe first pair parted, and first-diff named the op; the control is equal to the last bit.\n'
