# SPDX-License-Identifier: Apache-2.0
"""A peer that speaks the protocol by schema/PROTOCOL.md alone, and as badly as a test wants."""

import json
import os
import socket
import struct
import time

HELLO, WELCOME, STRINGS, SITES, TYPES, ARGUMENTS, PART, END, METADATA, BYE = range(1, 11)
ACK, ERROR, STATE, REQUEST, REPLY = range(11, 16)
EPROTO, EVERSION, ELIMIT, ESTATE, EEXIST, EBUSY, EUNSUPPORTED, EGAP = (
    -4, -5, -6, -7, -9, -10, -17, -20)
MAGIC = 0x31475644
COUNT_MAX = 2**62 - 1


def u8(value):
    return struct.pack("<B", value)


def u16(value):
    return struct.pack("<H", value)


def u32(value):
    return struct.pack("<I", value)


def u64(value):
    return struct.pack("<Q", value)


def frame(kind, payload=b"", seq=0, length=None):
    size = len(payload) if length is None else length
    return struct.pack("<IHHIIQQ", MAGIC, kind, 0, size, 0, seq, 0) + payload


def field(number, data, critical=0):
    head = struct.pack("<HHI", number, critical, len(data))
    return head + data + bytes(-len(data) % 8)


def hello(stream, run, epoch=1, rank=0, world=1, name=b"raw", major=1, level=3, next_seq=1):
    return frame(HELLO, b"".join([
        field(1, u16(major), 1), field(2, u16(0), 1), field(3, stream, 1), field(4, run, 1),
        field(5, u64(epoch), 1), field(6, u32(rank), 1), field(7, u32(world), 1),
        field(8, u8(level), 1), field(9, u64(next_seq), 1), field(10, name),
        field(11, b"l61.1", 1)]))


def definitions(kind, first, items, count=None):
    number = field(1, u32(first), 1) if first else b""
    count = len(items) if count is None else count
    return frame(kind, number + field(2, u32(count), 1) + field(3, b"".join(items), 1))


def string(text):
    item = u32(len(text)) + text
    return item + bytes(-len(item) % 4)


def site(tier=3, phase=2, role=1, slot=0, flags=0, occurrence=0, lane=1, op=0):
    return struct.pack("<BBBBHHIIIIIIIIII", tier, phase, role, 0, slot, 0, flags, 0, occurrence,
                       lane, 0, 0, op, 0, 0, 0)


def scalar_type():
    return struct.pack("<BBBBBBHII", 1, 0, 0, 0, 0, 0, 0, 0, 0)


def tensor_type(sizes, world=(), extents=(), dtype=12, placement=0):
    item = struct.pack("<BBBBBBHII", 0, dtype, len(sizes), placement, 0, len(world), 0, 0,
                       len(extents))
    item += b"".join(struct.pack("<q", n) for n in (*sizes, *world))
    return item + b"".join(struct.pack("<QQ", *extent) for extent in extents)


def part(seq, segment, count=1, runs=((1, 1),), first=0, types=(1,), tier=3, lane=1, extra=b"",
         values=(7,)):
    fields = [field(1, u64(segment), 1), field(2, u8(tier), 1), field(3, u32(lane), 1),
              field(4, u32(count), 1)]
    if first:
        fields.append(field(5, u64(first), 1))
    fields.append(field(6, b"".join(struct.pack("<II", *run) for run in runs), 1))
    fields.append(field(32, b"".join(u64(value) for value in values), 1))
    fields.append(field(33, b"".join(u32(number) for number in types), 1))
    return frame(PART, b"".join(fields) + extra, seq)


def end(seq, segment, records=1, dropped=0):
    fields = field(1, u64(segment), 1)
    fields += field(2, b"".join(u64(records if tier == 3 else 0) for tier in range(5)), 1)
    if dropped:
        fields += field(3, u64(dropped) * 5, 1)
    return frame(END, fields + field(6, u8(8), 1), seq)


def metadata(seq, text):
    return frame(METADATA, field(1, text, 1), seq)


def bye(seq):
    return frame(BYE, field(1, u8(0), 1), seq)


def request(text):
    return frame(REQUEST, field(1, u32(1), 1) + field(2, text, 1))


DEFINED = (definitions(STRINGS, 1, [string(b"main"), string(b"op")])
           + definitions(SITES, 1, [site(op=2), site(op=2, slot=1)])
           + definitions(TYPES, 1, [scalar_type(), tensor_type((2, 3))]))


class Peer:
    """A connection. Everything that waits ends after a while."""

    made = 0

    def __init__(self, wait_s=30):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(os.environ["DIVERGE_SOCKET"])
        self.socket.settimeout(wait_s)
        self.bytes = b""

    def send(self, *frames):
        """Once the daemon has refused and closed, the rest goes nowhere."""
        try:
            self.socket.sendall(b"".join(frames))
        except (BrokenPipeError, ConnectionResetError):
            pass
        return self

    def close(self):
        self.socket.close()

    def read(self):
        """(type, {field: bytes}), or None at the end."""
        while True:
            if len(self.bytes) >= 32:
                size = 32 + struct.unpack_from("<I", self.bytes, 8)[0]
                if len(self.bytes) >= size:
                    kind = struct.unpack_from("<H", self.bytes, 4)[0]
                    payload, self.bytes = self.bytes[32:size], self.bytes[size:]
                    return kind, fields_of(payload)
            try:
                more = self.socket.recv(65536)
            except ConnectionResetError:
                return None
            if not more:
                return None
            self.bytes += more

    def read_to(self, kind):
        """The next message of that type."""
        message = self.read()
        while message and message[0] != kind:
            message = self.read()
        return message and message[1]

    def open(self, **options):
        Peer.made += 1
        self.stream = struct.pack("<QQ", Peer.made, os.getpid())
        self.run = struct.pack("<QQ", Peer.made, os.getpid() + 1)
        self.send(hello(self.stream, self.run, **options))
        if self.read_to(WELCOME) is None:
            raise SystemExit(f"no WELCOME: {options}")
        return self.send(DEFINED)


def fields_of(payload):
    found, at = {}, 0
    while at + 8 <= len(payload):
        number, _, size = struct.unpack_from("<HHI", payload, at)
        found[number] = payload[at + 8:at + 8 + size]
        at += 8 + size + -size % 8
    return found


def expect_error(what, peer, status):
    """The connection ends with that status and a text that says more than its name."""
    error = peer.read_to(ERROR)
    peer.close()
    if error is None:
        raise SystemExit(f"{what}: not refused")
    got, text = struct.unpack("<i", error[1])[0], error.get(3, b"").decode()
    if got != status or len(text) < 10:
        raise SystemExit(f"{what}: {got} {text!r}, expected {status}")


def expect_ack(what, peer, seq):
    while True:
        message = peer.read()
        if message is None or message[0] == ERROR:
            raise SystemExit(f"{what}: not acknowledged: {message}")
        if message[0] == ACK and struct.unpack("<Q", message[1][1])[0] == seq:
            return peer


def control(text):
    peer = Peer().send(request(text))
    reply = peer.read_to(REPLY)
    peer.close()
    if reply is None:
        raise SystemExit(f"no reply to {text[:60]!r}")
    return json.loads(reply[2])


def daemon_rss_kib():
    pid = control(b'{"command":"status"}')["pid"]
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


def wait_until(what, is_so, seconds=30):
    limit = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > limit:
            raise SystemExit(f"{what}: not within {seconds} s")
