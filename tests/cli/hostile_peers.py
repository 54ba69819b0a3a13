# SPDX-License-Identifier: Apache-2.0
"""Peers that break each rule of the protocol. The daemon is told of at DIVERGE_SOCKET."""

import json
import random
import struct

import peer as p

END_OF_LINE = p.part(1, 2), p.end(2, 2)


def refuse(what, status, *frames):
    p.expect_error(what, p.Peer().open().send(*frames), status)


def accept(what, seq, *frames):
    p.expect_ack(what, p.Peer().open().send(*frames), seq).close()


def order():
    """Sequence numbers and segments that repeat, skip or go backwards."""
    accept("a message twice", 2, p.part(1, 2), p.part(1, 2), p.end(2, 2))
    refuse("a number left out", p.EGAP, p.part(1, 2), p.part(5, 2, first=1))
    refuse("no number", p.EPROTO, p.part(0, 2))
    refuse("number 2^64 - 1", p.EPROTO, p.part(2**64 - 1, 2))
    refuse("PART after END", p.ESTATE, *END_OF_LINE, p.part(3, 2))
    refuse("END twice", p.ESTATE, *END_OF_LINE, p.end(3, 2))
    refuse("segments backwards", p.ESTATE, p.part(1, 8), p.end(2, 8), p.part(3, 2))
    refuse("PART after BYE", p.ESTATE, *END_OF_LINE, p.bye(3), p.part(4, 4))
    refuse("BYE twice", p.ESTATE, p.bye(1), p.bye(2))
    refuse("HELLO twice", p.ESTATE, p.hello(b"s" * 16, b"r" * 16))
    refuse("records left out", p.EGAP, p.part(1, 2, first=5))
    refuse("a control request", p.EPROTO, p.request(b"{}"))
    refuse("a daemon's message", p.EPROTO, p.frame(p.ACK))
    refuse("an unknown message", p.EUNSUPPORTED, p.frame(999))


def numbers():
    """Counts, indexes and ids out of range."""
    most = 2**32 - 1
    refuse("2^32 - 1 records", p.ELIMIT, p.part(1, 2, count=most, runs=((1, most),)))
    refuse("no records", p.EPROTO, p.part(1, 2, count=0, runs=()))
    refuse("a run that wraps", p.EPROTO, p.part(1, 2, runs=((1, most), (1, 2))))
    refuse("a site that is not defined", p.EPROTO, p.part(1, 2, count=9, runs=((1, 9),)))
    refuse("a type that is not defined", p.EPROTO, p.part(1, 2, types=(99,)))
    refuse("a lane that is not defined", p.EPROTO, p.part(1, 2, lane=99))
    refuse("a tier that is none", p.EPROTO, p.part(1, 2, tier=5))
    refuse("segment 2^62", p.EPROTO, p.part(1, 2**62))
    refuse("2^32 - 1 strings", p.EPROTO, p.definitions(p.STRINGS, 3, [p.string(b"x")], most))
    refuse("a hole in numbers", p.EPROTO, p.definitions(p.STRINGS, 9, [p.string(b"x")]))
    refuse("END of 2^64 - 1", p.EPROTO, p.part(1, 2), p.end(2, 2, records=2**64 - 1))
    accept("the largest counts", 5, p.part(1, 2),
           p.end(2, 2, p.COUNT_MAX, p.COUNT_MAX), p.end(3, 4, p.COUNT_MAX, p.COUNT_MAX),
           p.end(4, 6, p.COUNT_MAX, p.COUNT_MAX), p.bye(5))
    accept("order and producer at their end", 2,
           p.part(1, 2, extra=p.field(36, p.u32(most)) + p.field(37, p.u32(most))), p.end(2, 2))


def texts():
    """Names that are none."""
    for what, status, text in (("4097 bytes", p.ELIMIT, b"x" * 4097), ("NUL", p.EPROTO, b"a\0b"),
                               ("overlong", p.EPROTO, b"\xc0\x80"), ("cut", p.EPROTO, b"\xe2\x82"),
                               ("surrogate", p.EPROTO, b"\xed\xa0\x80")):
        refuse(what, status, p.definitions(p.STRINGS, 3, [p.string(text)]))
    accept("control characters", 2, p.definitions(p.STRINGS, 3, [p.string(b"\x1b[31m\x07\n")]),
           *END_OF_LINE)
    for name in (b"x" * 127, b"../../x\x1b[2J", b"@last", b"-rf", b""):
        peer = p.Peer().open(name=name)
        peer.close()


def shapes():
    """Shapes that do not fit, and odd ones that do."""
    for what, item in (
            ("extents that overlap", p.tensor_type((4,), (8,), ((0, 3), (2, 1)), placement=1)),
            ("an extent past the end", p.tensor_type((4,), (8,), ((6, 4),), placement=1)),
            ("an extent that wraps", p.tensor_type((4,), (8,), ((2**64 - 2, 4),), placement=1)),
            ("extents of another sum", p.tensor_type((4,), (8,), ((0, 3),), placement=1)),
            ("2^60 elements", p.tensor_type((2**30, 2**30))),
            ("a product that wraps", p.tensor_type((2**32, 2**32, 2**32))),
            ("a negative size", p.tensor_type((-1,))), ("33 dimensions", p.tensor_type((1,) * 33)),
            ("0 elements of 2^62", p.tensor_type((0, 2**62))),
            ("dtype 21", p.tensor_type((1,), dtype=21)),
            ("no dtype", p.tensor_type((1,), dtype=0))):
        refuse(what, p.EPROTO, p.definitions(p.TYPES, 3, [item]))
    nonfinite = (p.field(35, b"\x1e", 1) + p.field(38, b"\0\0\xc0\x7f") +
                 p.field(39, b"\0\0\x80\x7f") + p.field(40, p.u64(0x7fc00000)) +
                 p.field(41, p.u64(0xff800000)))
    peer = p.Peer().open(name=b"odd")
    peer.send(p.definitions(p.TYPES, 3, [
        p.tensor_type((0,)), p.tensor_type(()), p.tensor_type((0, 2**59)),
        p.tensor_type((4,), (2**20, 2**20), ((2**40 - 4, 4),), placement=1)]))
    for at, number in enumerate((3, 4, 5, 6, 2)):
        peer.send(p.part(at + 1, 2, first=at, types=(number,), extra=nonfinite))
    peer.send(p.end(6, 2, 5), p.bye(7))
    p.expect_ack("odd shapes and NaN everywhere", peer, 7).close()


def documents():
    """JSON that goes too far, in metadata and in control requests."""
    deep = b'{"a":' + b"[" * 100000 + b"]" * 100000 + b"}"
    many = json.dumps({f"k{i}": "v" for i in range(16385)}).encode()
    for what, status, text in (("nested", p.ELIMIT, deep), ("too many keys", p.ELIMIT, many),
                               ("twice", p.EPROTO, b'{"a":"1","a":"2"}'),
                               ("NUL", p.EPROTO, b'{"a":"\\u0000"}'),
                               ("NaN", p.EPROTO, b'{"a":NaN}'),
                               ("not UTF-8", p.EPROTO, b'{"a":"\xff"}'),
                               ("a long key", p.ELIMIT, b'{"' + b"k" * 257 + b'":"v"}'),
                               ("no object", p.EPROTO, b"[]")):
        refuse(f"metadata: {what}", status, p.metadata(1, text))
    for text in (deep, b"[" * 1000000, b'{"command":"' + b"x" * 900000 + b'"}',
                 b'{"COMMAND":"stop"}',
                 b'{"command":"status","command":"stop"}', b'{"command":"rm","run":1e300}',
                 b'{"command":"rm","run":"9223372036854775808"}'):
        reply = p.control(text)
        if reply["ok"] or len(reply["error"]) < 10:
            raise SystemExit(f"{text[:60]!r}: {reply}")


def streams():
    """Two connections of one stream, and who claims another's."""
    first = p.Peer().open(epoch=5)
    for epoch in (5, 4, 0):
        p.expect_error(f"epoch {epoch}", p.Peer().send(p.hello(first.stream, first.run, epoch)),
                       p.EBUSY)
    first.send(p.part(1, 2))
    second = p.Peer().send(p.hello(first.stream, first.run, 6), p.DEFINED, p.part(1, 2),
                           p.part(2, 2, first=1), p.end(3, 2, 2), p.bye(4))
    p.expect_error("the former connection", first, p.EBUSY)
    p.expect_ack("the new connection", second, 4).close()
    p.expect_error("another run", p.Peer().send(p.hello(first.stream, b"r" * 16, 9)), p.EEXIST)
    p.expect_error("another rank", p.Peer().send(p.hello(first.stream, first.run, 9, 1, 4)),
                   p.EEXIST)
    a, b = p.Peer().open(), p.Peer().open()
    conversation = p.part(1, 2) + p.end(2, 2) + p.bye(3)
    for at in range(0, len(conversation), 5):
        for peer in (a, b):
            peer.send(conversation[at:at + 5])
    for peer in (a, b):
        p.expect_ack("interleaved by bytes", peer, 3).close()


def answer_of(conversation):
    """What ends it: ACK 4, an ERROR, or the end after what was sent was not whole."""
    peer = p.Peer().send(conversation)
    peer.socket.shutdown(1)
    while True:
        message = peer.read()
        if message is None or message[0] == p.ERROR:
            peer.close()
            return


def mutations():
    """Each byte of each header, and random bytes of a whole conversation."""
    chance = random.Random(20260101)
    body = (p.part(1, 2, count=2, runs=((1, 2),), types=(2,), extra=p.field(35, b"\x1e", 1) +
                   p.field(36, p.u32(0) + p.u32(1)) + p.field(40, p.u64(1))) +
            p.end(2, 2, 2) + p.metadata(3, b'{"a":"b","c":{"d":[1,2]}}') + p.bye(4))

    def conversation(number):
        ids = struct.pack("<QQ", number, 1), struct.pack("<QQ", number, 2)
        return bytearray(p.hello(*ids, name=b"mutant") + p.DEFINED + body)

    number, heads, at, size = 0, [], 0, len(conversation(0))
    while at < size:
        heads += range(at, at + 32)
        at += 32 + struct.unpack_from("<I", conversation(0), at + 8)[0]
    for at in heads:
        number += 1
        mutant = conversation(number)
        mutant[at] ^= 0x80 if number % 2 else 0x01
        answer_of(mutant)
    for _ in range(400):
        number += 1
        mutant = conversation(number)
        at = chance.randrange(size - 8)
        if chance.random() < 0.5:
            mutant[at] = chance.choice((0, 1, 0x7f, 0x80, 0xff, mutant[at] ^ 4))
        else:
            at &= ~7
            mutant[at:at + 8] = p.u64(chance.choice((0, 2**31, 2**32 - 1, 2**62, 2**63, 2**64 - 1)))
        answer_of(mutant[:chance.randrange(size)] if chance.random() < 0.1 else mutant)


def crowds():
    """Many, slow, and such as do not read: what the daemon keeps for them is bounded."""
    before = p.daemon_rss_kib()
    slow = [p.Peer() for _ in range(200)]
    for at in range(8):
        for peer in slow:
            peer.send(p.hello(b"s" * 16, b"r" * 16)[at:at + 1])
    deaf = p.Peer().open()
    for at in range(20000):
        deaf.send(p.metadata(at + 1, b'{"k":"%d"}' % at))
    if p.daemon_rss_kib() > before + 100 * 1024:
        raise SystemExit(f"the daemon grew from {before} to {p.daemon_rss_kib()} KiB")
    for peer in (*slow, deaf):
        peer.close()
    sites = p.Peer().open(name=b"many")
    for first in range(3, 100003, 20000):
        sites.send(p.definitions(p.SITES, first, [
            p.site(op=2, occurrence=number) for number in range(first, first + 20000)]))
    sites.send(p.part(1, 2, 100000, ((3, 100000),)), p.end(2, 2, 100000), p.bye(3))
    p.expect_ack("100 000 sites", sites, 3).close()


for test in (order, numbers, texts, shapes, documents, streams, mutations, crowds):
    test()
p.wait_until("all have gone", lambda: p.control(b'{"command":"status"}')["producers"] == 0)
