"""Columns become messages with derived ids, and only when asked for."""

import gc
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest

from dlog.format.entry import Codec, encode_entry
from dlog.format.message import Columns
from dlog.model import Message, MessageId
from dlog.read.batch import MessageBatch, decode_batch, memory_bytes

BATCH = MessageBatch(
    ledger_id=7,
    entry_id=3,
    first_index=2,
    append_time_us=99,
    keys=[None, b"k", b""],
    payloads=[b"a", None, b"c"],
    headers=[(), (b"h", b"1", b"h", b"2"), ()],
    messages_before=50,
    producer_id=bytes(16),
    first_sequence=700,
)


def test_messages_carry_derived_ids_and_paired_headers() -> None:
    """Batch indexes count from the first one kept."""
    assert list(BATCH) == [
        Message(MessageId(7, 3, 2), b"a", None, (), 99),
        Message(MessageId(7, 3, 3), None, b"k", ((b"h", b"1"), (b"h", b"2")), 99),
        Message(MessageId(7, 3, 4), b"c", b"", (), 99),
    ]
    assert all(type(message) is Message and type(message.id) is MessageId for message in BATCH)
    assert (BATCH.first_id, BATCH.last_id, len(BATCH)) == (MessageId(7, 3, 2), MessageId(7, 3, 4), 3)


def test_a_slice_keeps_ids() -> None:
    """Bounds are batch indexes of the entry, not positions in the columns."""
    assert list(BATCH.slice(3, 4)) == list(BATCH)[1:2]
    assert list(BATCH.slice(0, 4)) == list(BATCH)[:2]
    assert list(BATCH.slice(4, 100)) == list(BATCH)[2:]
    assert list(BATCH.slice(9, 10)) == []


def test_a_slice_counts_the_messages_that_it_leaves_out() -> None:
    assert [BATCH.slice(start, 9).messages_before for start in (0, 2, 3, 4)] == [50, 50, 51, 52]
    sliced = BATCH.slice(3, 9)
    assert (sliced.producer_id, sliced.first_sequence) == (bytes(16), 701)
    assert replace(BATCH, first_sequence=None).slice(3, 9).first_sequence is None
    assert replace(BATCH, messages_before=None).slice(3, 9).messages_before is None


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize(
    ("count", "message_bytes", "key", "headers"),
    [
        (1, 200_000, None, 0),
        (1000, 20, None, 0),
        (1000, 20, b"key", 0),
        (1000, 20, b"key", 3),
        (20_000, 2, None, 0),  # CPython shares those of one byte
    ],
)
def test_the_memory_of_a_batch_is_estimated_within_a_factor_of_two(
    codec: Codec, count: int, message_bytes: int, key: bytes | None, headers: int
) -> None:
    if codec is Codec.ZSTD:
        pytest.importorskip("zstandard")
    flat: tuple[Any, ...] = tuple(each for number in range(headers) for each in (b"%d" % number, b"value"))
    columns = Columns([key] * count, [bytes(message_bytes)] * count, [flat] * count)
    entry = b"".join(encode_entry(columns, epoch=1, append_time_us=1, codec=codec))
    decode_batch(3, 0, entry)
    gc.collect()  # tuples that are kept for reuse would not count
    tracemalloc.start()
    try:
        batch, body_bytes = decode_batch(3, 0, entry)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken / 2 < memory_bytes(batch, body_bytes) < taken * 2


@pytest.mark.parametrize("payload", [b"a", b"\xdd\x00" * 9])
def test_what_readers_share_cannot_be_changed(payload: bytes) -> None:
    """The readers of one client share them. A payload with the bytes of a huge array is decoded in its own way."""
    columns = Columns([None, b"k"], [payload, None], [(), (b"h", b"1")])
    batch = decode_batch(3, 0, b"".join(encode_entry(columns, epoch=1, append_time_us=1)))[0]
    for part in (batch, batch.slice(1, 2)):
        assert {type(column) for column in (part.keys, part.payloads, part.headers, *part.headers)} == {tuple}
