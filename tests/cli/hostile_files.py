# SPDX-License-Identifier: Apache-2.0
"""Damaged copies of a store or a recording, given to a command that reads them.

usage: hostile_files.py DIVERGECTL store|recording FILE OTHER COUNT
OTHER is the recording that recordings are compared with. Each copy ends in a status of the table.
"""

import os
import random
import subprocess
import sys

STATUSES = {0, 1, 2, 65, 66}
READERS = (["first-diff", "a", "b"], ["show", "a@2"], ["runs"], ["env-diff", "a", "b"],
           ["export", "a", "-o", "-"], ["status"])


def cut(data, count):
    """Cut after every so many bytes."""
    for at in range(0, len(data), max(1, len(data) // count)):
        yield data[:at]


def changed(data, count, chance):
    """A few bytes changed; heads and tails of pages hold most of what steers a reader."""
    for _ in range(count):
        copy = bytearray(data)
        for _ in range(chance.choice((1, 2, 8, 64))):
            at = chance.randrange(len(copy))
            if chance.random() < 0.3:
                at = at // 4096 * 4096 + chance.randrange(min(128, len(copy)))
            at = min(at, len(copy) - 1)
            copy[at] = chance.choice((0, 1, 0x7f, 0x80, 0xff, copy[at] ^ 1 << chance.randrange(8)))
        yield bytes(copy)


def check(command, what):
    try:
        done = subprocess.run(command, capture_output=True, timeout=60, check=False,
                              stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        sys.exit(f"{what}: {command[3:]} does not end")
    said = done.stderr.decode(errors="replace")
    if done.returncode not in STATUSES or "Sanitizer" in said or "runtime error" in said:
        sys.exit(f"{what}: {command[1:]}: status {done.returncode}\n{said[:3000]}")
    if done.returncode >= 64 and len(said) < 20:
        sys.exit(f"{what}: {command[1:]} says nothing")
    return done.returncode


def main():
    program, kind, path, other, count = sys.argv[1:]
    with open(path, "rb") as file:
        data = file.read()
    chance = random.Random(20260102)
    copies = [*cut(data, int(count) // 4), *changed(data, int(count), chance)]
    seen = set()
    for number, copy in enumerate(copies):
        bad = f"{path}.bad{number}"
        with open(bad, "wb") as file:
            file.write(copy)
        if kind == "store":
            command = [program, "--store", bad, *READERS[number % len(READERS)]]
        else:
            command = [program, "first-diff", bad, other]
        seen.add(check(command, f"copy {number}"))
        for suffix in ("", "-wal", "-shm", "-journal"):
            if os.path.exists(bad + suffix):
                os.unlink(bad + suffix)
    if 65 not in seen:
        sys.exit("no copy was found damaged")


main()
