#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# At a terminal: colour unless NO_COLOR says otherwise, its width, and ^C, which reaches the job.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

record a
record b --op-fault 5

# at_terminal KEY COMMAND...: runs it at a pseudo terminal of 60 columns; types KEY once "ready" shows.
at_terminal() {
    python3 - "$@" <<'P'
import fcntl
import os
import pty
import struct
import sys
import termios

key, command = sys.argv[1], sys.argv[2:]
pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    os.execvp(command[0], command)
seen = b""
while True:
    try:
        data = os.read(terminal, 65536)
    except OSError:  # the other side is closed
        data = b""
    if not data:
        break
    seen += data
    if key and b"ready" in seen:
        os.write(terminal, key.encode())
        key = ""
sys.stdout.buffer.write(seen.replace(b"\r\n", b"\n"))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
P
}
program=(env -i --default-signal=INT "${environment[@]}")

expect 1 at_terminal '' "${program[@]}" "$DVG_DIVERGECTL" first-diff a b
out_has $'\x1b[1mFirst difference:\x1b[0m'
sed 's/\x1b\[[0-9;]*m//g' "$dir/out" >"$dir/plain"
[[ $(wc -L <"$dir/plain") -le 60 ]] || fail 'wider than the terminal'
for plain in NO_COLOR=1 TERM=dumb; do
    expect 1 at_terminal '' "${program[@]}" "$plain" "$DVG_DIVERGECTL" first-diff a b
    out_lacks $'\x1b'
done

# What a record is stays readable; what has no room is left out.
expect 0 at_terminal '' "${program[@]}" "$DVG_DIVERGECTL" show a@3
out_has 'output 0'
out_lacks 'SOURCE'
expect 0 ctl show a@3
out_has 'SOURCE'

expect 130 at_terminal $'\x03' "${program[@]}" "$DVG_DIVERGECTL" run --name stopped -- "$producer" --wait
out_has 'recorded as stopped'
expect 0 ctl show stopped@7
out_has 'fc scale'
