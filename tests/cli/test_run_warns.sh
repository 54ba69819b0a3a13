#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run says when nothing was recorded, and under which name something was.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

expect 0 ctl run -- true
err_has 'nothing was recorded'
expect 64 ctl run --steps 3,x -- touch "$dir/ran"
err_has "steps '3,x': expected ranges like"
[[ ! -e $dir/ran ]] || fail 'the job ran, with nothing to record it'
expect 0 ctl run --name base -- "$producer"
err_has 'recorded as base ('
err_has '8 steps'
out_empty
expect 0 ctl run --quiet --name base -- "$producer"
err_empty
expect 0 ctl runs --names
out_has 'base.2'
expect 0 ctl first-diff base base.2

# A recording that cannot be made is told, and keeps no training from going on.
expect 0 env -i "${environment[@]}" DIVERGE_RECORDING="$dir/none/x.dvg" "$producer"
err_has "cannot record into $dir/none/x.dvg"

# A variable that cannot be read is told, and costs nothing but itself.
expect 0 ctl run --name told -- env DIVERGE_SPOOL_BYTES=lots DIVERGE_SKETCH=33 "$producer"
err_has "DIVERGE_SPOOL_BYTES is passed over: 'lots': expected bytes, such as 4096, 64M or 1G"
err_has 'DIVERGE_SKETCH is passed over'
expect 0 ctl runs --json
json '[r["status"] for r in o["runs"] if r["name"] == "told"] == ["complete"]'
expect 0 ctl run --name sized -- env DIVERGE_SPOOL_BYTES=1G "$producer"
err_lacks 'passed over'
