#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# No daemon can be started: 69 with the reason, and run goes on.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

environment+=(DIVERGE_DAEMON=/nonexistent/diverged)
expect 69 ctl daemon start
err_has '/nonexistent/diverged'
expect 69 ctl import "$0"
expect 7 ctl run -- sh -c 'exit 7'
err_has 'going on without a daemon'
environment+=(DIVERGE_DAEMON=/bin/false)
expect 69 ctl daemon start
err_has 'did not start'
long=$dir/$(printf 'x%.0s' {1..120})
expect 65 ctl --socket "$long" daemon start
err_has '107'
