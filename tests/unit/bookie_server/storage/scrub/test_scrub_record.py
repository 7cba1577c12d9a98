"""What the scrubber remembers comes back, and anything else is an empty record."""

import json
from dataclasses import replace

import pytest

from bookie_server.storage.scrub.file_walk import FilePosition
from bookie_server.storage.scrub.record import (
    LEDGERS_MAX,
    ScrubPass,
    ScrubRecord,
    decode_scrub_record,
    encode_scrub_record,
)
from bookie_server.storage.scrub.walk import Damage, Position, Step
from bookie_server.storage.segments.places import segment_id

LAST = ScrubPass(
    began_ms=1,
    ended_ms=5,
    blocks=2,
    block_bytes=300,
    damaged_blocks=1,
    damaged_ledgers=(7,),
    unindexed_blocks=3,
    restored_blocks=2,
    index_damaged=True,
)
RECORD = ScrubRecord(current=ScrubPass(began_ms=9, blocks=1), position=Position(7, 20), last=LAST)
IN_FILES = replace(RECORD, position=FilePosition(segment_id(3), 512))


@pytest.mark.parametrize("record", [ScrubRecord(), RECORD, IN_FILES, ScrubRecord(last=LAST)])
def test_a_record_comes_back_as_it_was(record: ScrubRecord) -> None:
    assert decode_scrub_record(encode_scrub_record(record)) == record


def test_its_bytes_stay_as_they_are() -> None:
    assert json.loads(encode_scrub_record(RECORD)) == {
        "version": 1,
        "current": {
            "began_ms": 9,
            "ended_ms": None,
            "blocks": 1,
            "block_bytes": 0,
            "damaged_blocks": 0,
            "damaged_ledgers": [],
            "unindexed_blocks": 0,
            "restored_blocks": 0,
            "index_damaged": False,
        },
        "position": {"ledger_id": 7, "entry_id": 20},
        "last": {
            "began_ms": 1,
            "ended_ms": 5,
            "blocks": 2,
            "block_bytes": 300,
            "damaged_blocks": 1,
            "damaged_ledgers": [7],
            "unindexed_blocks": 3,
            "restored_blocks": 2,
            "index_damaged": True,
        },
    }
    assert json.loads(encode_scrub_record(IN_FILES))["position"] == {"log_id": 2**63 + 3, "offset": 512}


def test_a_record_of_an_earlier_build_is_read() -> None:
    """It knew neither positions in files nor what is not in the index, nor that this is damaged."""
    fields = json.loads(encode_scrub_record(RECORD))
    for each in (fields["current"], fields["last"]):
        del each["unindexed_blocks"], each["restored_blocks"], each["index_damaged"]
    earlier = replace(RECORD, last=replace(LAST, unindexed_blocks=0, restored_blocks=0, index_damaged=False))
    assert decode_scrub_record(json.dumps(fields).encode()) == earlier


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"\xff",
        b"[1]",
        b"[" * 100_000,
        encode_scrub_record(RECORD).replace(b'"version": 1', b'"version": 2'),
        encode_scrub_record(RECORD).replace(b'"began_ms": 9', b'"began_ms": 9e999'),
        encode_scrub_record(RECORD).replace(b'"entry_id": 20', b'"entry_id": -20'),
        encode_scrub_record(RECORD).replace(b'"ledger_id": 7', b'"ledger_id": 18446744073709551616'),
        encode_scrub_record(IN_FILES).replace(b'"offset": 512', b'"offset": -512'),
    ],
)
def test_anything_else_is_an_empty_record(content: bytes) -> None:
    assert decode_scrub_record(content) == ScrubRecord()


def test_a_step_is_counted_and_its_ledgers_are_named_once() -> None:
    damage = tuple(Damage(ledger_id, 0, 1, "damaged", 1) for ledger_id in (9, 4, 9))
    after = replace(LAST, index_damaged=False).after(Step(3, 100, damage, None))
    assert after == ScrubPass(
        began_ms=1,
        ended_ms=5,
        blocks=5,
        block_bytes=400,
        damaged_blocks=4,
        damaged_ledgers=(4, 7, 9),
        unindexed_blocks=3,
        restored_blocks=2,
    )
    many = tuple(Damage(ledger_id, 0, 1, "damaged", 1) for ledger_id in range(2 * LEDGERS_MAX))
    assert len(LAST.after(Step(1, 1, many, None)).damaged_ledgers) == LEDGERS_MAX


def test_damage_of_the_index_is_no_damage_of_blocks() -> None:
    before = ScrubPass(began_ms=1)
    after = before.after(Step(0, 0, (), Position(1), index_damage="damaged"))
    assert after == replace(before, index_damaged=True)
    assert after.after(Step(0, 0, (), None)) == after
