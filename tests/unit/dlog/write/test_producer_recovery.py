"""What a takeover reads of producers from the end of a ledger."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from dlog.errors import EntryFormatError
from dlog.format.entry import ProducerMark, SnapshotPlace, encode_entry
from dlog.format.message import Columns
from dlog.format.producer_snapshot import SEQUENCE_MAX, decode_snapshot, encode_snapshot
from dlog.write.producer_recovery import Producers, read_producers
from ledger.reading.read_handle import ReadHandle
from tests.helpers.log.memory_ledgers import MemoryLedger, MemoryLedgers


def read(first_sequence: int) -> Producers | None:
    """Of a ledger with one entry of two messages."""
    ledgers = MemoryLedgers()
    ledger = ledgers.ledgers[7] = MemoryLedger(sealed=True)
    entry = encode_entry(
        Columns([None] * 2, [b"1", b"2"], [[]] * 2),
        epoch=1,
        append_time_us=1,
        producer=ProducerMark(b"p" * 16, first_sequence),
        messages_before=0,
        producers=SnapshotPlace(0, b""),
    )
    ledger.entries.append(b"".join(entry))
    ledger.confirm()

    async def main() -> Producers | None:
        return await read_producers(cast(ReadHandle, await ledgers.open(7)))

    return asyncio.run(main())


def test_the_largest_sequence_is_read_and_fits_a_snapshot() -> None:
    found = read(SEQUENCE_MAX - 1)
    assert found is not None
    assert found[b"p" * 16].sequence == SEQUENCE_MAX
    assert decode_snapshot(encode_snapshot(found)) == found


@pytest.mark.parametrize("first", [SEQUENCE_MAX, 2**64 - 1])
def test_one_that_no_snapshot_can_hold_is_damage(first: int) -> None:
    """It would end in a snapshot that no later takeover can read, or in an error of `struct`."""
    with pytest.raises(EntryFormatError, match=f"entry 0 of ledger 7 has sequence {first + 1}, the limit is"):
        read(first)
