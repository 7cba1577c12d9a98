"""Gzip input: the bytes that were compressed, in bounded chunks, or a sentence."""

from __future__ import annotations

import gzip
import tracemalloc
from random import Random

import pytest

from dlog.cli.input.gzip_chunks import OUTPUT_BYTES, decompressed
from ledger.errors import ConfigurationError

TEXT = Random(1).randbytes(100_000)
#: Compressed without the time of day, which would give each process other bytes.
MEMBER = gzip.compress(TEXT, mtime=0)

DAMAGED = "the input is not gzip, or is damaged"
CUT_OFF = "the input ends inside a gzip member: it was cut off"


def chunks_of(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_members_follow_each_other_however_they_are_cut(size: int) -> None:
    data = MEMBER + gzip.compress(b"") + gzip.compress(b"end") + b"\0" * 20
    assert b"".join(decompressed(chunks_of(data, size))) == TEXT + b"end"


def test_nothing_is_nothing() -> None:
    assert list(decompressed([])) == list(decompressed([b""])) == []


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        pytest.param(b"plain text", DAMAGED, id="plain-text"),
        pytest.param(MEMBER[:-1], CUT_OFF, id="last-byte-cut-off"),
        pytest.param(MEMBER[:20], CUT_OFF, id="header-alone"),
        pytest.param(MEMBER + b"rest", DAMAGED, id="text-behind-a-member"),
        pytest.param(MEMBER[:-8] + b"12345678", DAMAGED, id="wrong-checksum"),
    ],
)
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_what_is_not_gzip_is_refused(data: bytes, sentence: str, size: int) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        list(decompressed(chunks_of(data, size)))


def test_a_small_input_that_becomes_large_needs_little_memory() -> None:
    data = gzip.compress(bytes(64 << 20))
    assert len(data) < 100_000
    tracemalloc.start()
    total = 0
    for chunk in decompressed([data]):
        assert len(chunk) <= OUTPUT_BYTES
        total += len(chunk)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == 64 << 20
    assert peak < 4 << 20
