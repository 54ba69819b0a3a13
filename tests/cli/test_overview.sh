#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Help, versions and what is said to a wrong command line.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

expect 0 ctl
out_has 'divergectl first-diff A B'
err_empty
expect 0 ctl --help
out_has 'Find where two runs part'
expect 0 ctl --version
out_has 'divergectl 0.'
expect 0 ctl runs --version
out_has 'divergectl 0.'
expect 0 ctl help first-diff
out_has '--strict-structure'
cp "$dir/out" "$dir/first"
expect 0 ctl first-diff --help
cmp -s "$dir/out" "$dir/first" || fail 'help first-diff and first-diff --help differ'

expect 64 ctl frist-diff a b
out_empty
err_has 'did you mean "first-diff"?'
expect 64 ctl elephant
err_has 'unknown command "elephant"'
expect 64 ctl help elephant
expect 64 ctl --stor=x runs
err_has 'did you mean --store?'
expect 64 ctl first-diff a
err_has 'usage: divergectl first-diff'
expect 64 ctl first-diff a b c
expect 64 ctl runs extra
expect 64 ctl runs --limit many
err_has '--limit takes a number'
expect 64 ctl --color sometimes runs
err_has 'auto, always or never'
expect 64 ctl run --json -- true
expect 64 ctl run
expect 64 ctl run --level deep -- true
expect 64 ctl run --name 'a b' -- true
expect 64 ctl daemon dance
expect 64 ctl --print-completion tcsh
