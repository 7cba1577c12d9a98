"""Mutation without coverage: for the suite, and for a Python that has no wheel of atheris."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

_INTERESTING = (
    0,
    1,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    2**63 - 1,
    2**64 - 1,
)


def mutants(corpus: Sequence[bytes], rng: random.Random, bytes_max: int) -> Iterator[bytes]:
    """Without end."""
    while True:
        data = bytearray(rng.choice(corpus)) if corpus else bytearray()
        for _ in range(rng.choice((1, 1, 2, 3, 8))):
            rng.choice(_STEPS)(data, rng)
        if rng.random() < 0.1 and corpus:
            other = rng.choice(corpus)
            at, where = rng.randrange(len(data) + 1), rng.randrange(len(other) + 1)
            data = data[:at] + bytearray(other[where:])
        yield bytes(data[:bytes_max])


def _flip(data: bytearray, rng: random.Random) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _set(data: bytearray, rng: random.Random) -> None:
    if data:
        data[rng.randrange(len(data))] = rng.randrange(256)


def _insert(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data) + 1)
    data[at:at] = rng.randbytes(rng.choice((1, 1, 2, 4, 8, 40)))


def _remove(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data) + 1)
    del data[at : at + rng.choice((1, 1, 2, 4, 8, 40))]


def _cut(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(len(data) + 1) :]


def _number(data: bytearray, rng: random.Random) -> None:
    size = rng.choice((1, 2, 4, 8))
    if len(data) >= size:
        at = rng.randrange(len(data) - size + 1)
        value = rng.choice(_INTERESTING) & (1 << 8 * size) - 1
        data[at : at + size] = value.to_bytes(size, rng.choice(("big", "little")))


def _repeat(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data) + 1)
    piece = data[at : at + rng.randrange(1, 40)]
    data[at:at] = piece * rng.choice((1, 2, 5))


_STEPS = (_flip, _flip, _set, _insert, _remove, _cut, _number, _number, _repeat)
