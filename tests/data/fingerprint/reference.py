# SPDX-License-Identifier: Apache-2.0
"""The fingerprint in plain Python: slow, exact, short; and the vectors that the tests read.

    python3 reference.py > dtypes.json

`vectors.json` beside it fixes the definition for float32 and float64; `dtypes.json` extends it to
every dtype. docs/FINGERPRINT.md explains what is computed here.
"""

import json
import math
import struct
import sys
from collections.abc import Callable, Iterator

M64 = (1 << 64) - 1
PRIME = (1 << 61) - 1
GOLDEN = 0x9E3779B97F4A7C15
BLOCK = 1024
HALF = 512

Number = int | float


def mix64(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & M64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & M64
    return z ^ (z >> 31)


def counter(name: bytes, index: int) -> int:
    """Value `index` of the splitmix64 stream whose seed is the eight letters of `name`."""
    return mix64((int.from_bytes(name, "big") + (index + 1) * GOLDEN) & M64)


def limb(bits: int) -> int:
    return bits - (bits >> 3)


def word_key(r: int) -> int:
    bits = counter(b"diverge1", r)
    return (limb(bits & 0xFFFFFFF) + (limb(bits >> 32 & 0xFFFFFFF) << 32)) % PRIME


def block_key(block: int) -> int:
    bits = counter(b"diverge2", block) >> 3
    return 1 if bits >= PRIME - 1 else bits + 1


WORD_KEYS = [word_key(r) for r in range(BLOCK)]
SIGNS = [-1.0 if counter(b"diverge3", r) >> 63 else 1.0 for r in range(BLOCK)]


def checksum(data: bytes, offset: int = 0) -> int:
    """Of bytes that sit at byte `offset` of the whole."""
    total = 0
    for at, byte in enumerate(data, offset):
        word = at // 4
        total += (byte << 8 * (at % 4)) * WORD_KEYS[word % BLOCK] * block_key(word // BLOCK)
    return total % PRIME


def to_f32(value: Number) -> float:
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def halves(count: int, start: int) -> Iterator[tuple[int, range]]:
    """(index of the half block, indices of the values in it)."""
    at = 0
    while at < count:
        half = (start + at) // HALF
        stop = min(count, (half + 1) * HALF - start)
        yield half, range(at, stop)
        at = stop


def sketch(values: list[Number], start: int, size: int) -> list[float]:
    """Signed bucket sums of components that sit at global component `start`."""
    sums = [0.0] * size
    for half, indices in halves(len(values), start):
        place = counter(b"diverge4", half // 2)
        second = half % 2
        flip = (place >> 8 if second else place) & 31
        sign = -1.0 if (place >> 62 if second else place >> 63) & 1 else 1.0
        group = 32 * ((place >> 5 & 1) ^ second) if size == 64 else 0
        lanes = [0.0] * 32
        for i in indices:
            r = (start + i) % BLOCK
            x = to_f32(values[i])
            x = x if math.isfinite(x) else 0.0
            lanes[r % 32] = to_f32(lanes[r % 32] + SIGNS[r] * x)
        for lane, x in enumerate(lanes):
            sums[group + (lane ^ flip)] += sign * x
    return sums


def statistics(values: list[Number]) -> dict[str, object]:
    finite = [x for x in values if math.isfinite(x)]
    top = max((abs(x) for x in finite), default=0)
    l2 = top * math.sqrt(math.fsum((x / top) ** 2 for x in finite)) if top else 0.0
    l1 = math.fsum(abs(x / top) for x in finite) * top if top else 0.0
    try:
        total: float | None = math.fsum(finite)
    except OverflowError:
        total = None
    return {
        "numel": len(values),
        "nan": sum(math.isnan(x) for x in values),
        "pinf": sum(x == math.inf for x in values),
        "ninf": sum(x == -math.inf for x in values),
        "zero": sum(x == 0 for x in finite),
        # As text: JSON readers lose integers beyond 2^53.
        "min": repr(min(finite)) if finite else None,
        "max": repr(max(finite)) if finite else None,
        "sum": total,
        "l1": l1 if math.isfinite(l1) else None,
        "l2": l2 if math.isfinite(l2) else None,
    }


def f8(fraction: int, bias: int, nans: set[int], infinity: int | None) -> Callable[[int], float]:
    def decode(bits: int) -> float:
        magnitude = bits & 0x7F
        sign = -1.0 if bits & 0x80 else 1.0
        if bits in nans:
            return math.nan
        if magnitude == infinity:
            return sign * math.inf
        exponent, rest = magnitude >> fraction, magnitude & ((1 << fraction) - 1)
        if exponent == 0:
            return sign * rest * 2.0 ** (1 - bias - fraction)
        return sign * (1 + rest / (1 << fraction)) * 2.0 ** (exponent - bias)

    return decode


F8 = {
    "float8_e4m3fn": f8(3, 7, {0x7F, 0xFF}, None),
    "float8_e5m2": f8(2, 15, {0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF}, 0x7C),
    "float8_e4m3fnuz": f8(3, 8, {0x80}, None),
    "float8_e5m2fnuz": f8(2, 16, {0x80}, None),
}
PACKED = {
    "uint8": "B",
    "int8": "b",
    "uint16": "H",
    "int16": "h",
    "uint32": "I",
    "int32": "i",
    "uint64": "Q",
    "int64": "q",
    "float16": "e",
    "float32": "f",
    "float64": "d",
    "complex64": "f",
    "complex128": "d",
}
COMPONENT_BYTES = {
    **{name: struct.calcsize("<" + code) for name, code in PACKED.items()},
    **dict.fromkeys(F8, 1),
    "bool": 1,
    "bfloat16": 2,
    "opaque": 1,
}
PARTS = {"complex64": 2, "complex128": 2}


def decode(dtype: str, data: bytes) -> list[Number]:
    """The components of elements."""
    if dtype in F8:
        return [F8[dtype](byte) for byte in data]
    if dtype == "bool":
        return [int(byte != 0) for byte in data]
    if dtype == "bfloat16":
        halves_ = struct.unpack(f"<{len(data) // 2}H", data)
        return list(struct.unpack(f"<{len(halves_)}f", b"".join(
            struct.pack("<I", bits << 16) for bits in halves_)))
    return list(struct.unpack(f"<{len(data) // COMPONENT_BYTES[dtype]}{PACKED[dtype]}", data))


def make_data(dtype: str, calm: bool, count: int) -> bytes:
    """Byte i is the low byte of mix64(i + 1). Calm: floats below 2, by one bit of the exponent."""
    width = COMPONENT_BYTES[dtype]
    data = bytearray(mix64(i + 1) & 0xFF for i in range(count * PARTS.get(dtype, 1) * width))
    if calm:
        for top in range(width - 1, len(data), width):
            data[top] &= 0xBF
    return bytes(data)


def f32_bits(values: list[float]) -> str:
    return b"".join(struct.pack("<f", to_f32(x)) for x in values).hex()


def vector(dtype: str, calm: bool, count: int, start: int) -> dict[str, object]:
    data = make_data(dtype, calm, count)
    parts = PARTS.get(dtype, 1)
    item = COMPONENT_BYTES[dtype] * parts
    result: dict[str, object] = {
        "dtype": dtype,
        "calm": calm,
        "count": count,
        "start": start,
        "checksum": f"{checksum(data, start * item):016x}",
    }
    if dtype != "opaque":
        values = decode(dtype, data)
        result["statistics"] = statistics(values)
        result["sketch64"] = f32_bits(sketch(values, start * parts, 64))
        result["sketch32"] = f32_bits(sketch(values, start * parts, 32))
    return result


def main() -> None:
    cases = [(1333, 0), (700, 411), (31, 0), (1, 7), (0, 3)]
    vectors = [
        vector(dtype, calm, count, start)
        for dtype in COMPONENT_BYTES
        for calm in (False, True)
        for count, start in cases
    ]
    bytes_ = {name: [repr(f(bits)) for bits in range(256)] for name, f in F8.items()}
    json.dump({"float8": bytes_, "vectors": vectors}, sys.stdout, indent=0, allow_nan=False)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
