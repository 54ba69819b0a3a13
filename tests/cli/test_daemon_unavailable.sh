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

# Of what the daemon logged, the error is told, not the line that came last.
printf '#!/bin/sh\nexec 1>&2\n%s\n%s\nexit 65\n' \
    "echo 't level=error event=store_not_usable status=-12 reason=\"it is \\\\\"odd\\\\\"\"'" \
    "echo 't level=info event=stopped status=-12'" >"$dir/daemon"
chmod 755 "$dir/daemon"
environment+=(DIVERGE_DAEMON="$dir/daemon")
expect 69 ctl daemon start
err_has 'did not start: it is '
err_lacks 'event=stopped'
# Without a log there would be no reason to tell.
rm "$dir/s/diverged.log"
ln -s /dev/null "$dir/s/diverged.log"
expect 77 ctl daemon start
err_has "cannot write the daemon's log $dir/s/diverged.log"
