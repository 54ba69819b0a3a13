#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The shared library exports what the headers declare as DIVERGE_API, and nothing else.
# usage: test_exports.sh LIBRARY INCLUDE_FOLDER
set -euo pipefail
library=$1
headers=$2
declared=$(cat "$headers"/diverge.h "$headers"/fingerprint.h | tr '\n' ' ' | grep -o 'DIVERGE_API [^;]*;' |
    grep -oE 'diverge_[a-z0-9_]+\(' | tr -d '(' | sort -u)
exported=$(nm -D --defined-only "$library" | awk '$2 == "T" { sub(/@.*/, "", $3); print $3 }' | sort -u)
[ "$(wc -l <<<"$declared")" -gt 30 ]
diff <(echo "$declared") <(echo "$exported")
needed=$(objdump -p "$library" | awk '/NEEDED/ { print $2 }')
if grep -vE '^(libc|libm|libpthread|ld-linux.*|lib[atu]+san)\.so' <<<"$needed"; then
    echo "the library needs more than libc" >&2
    exit 1
fi
