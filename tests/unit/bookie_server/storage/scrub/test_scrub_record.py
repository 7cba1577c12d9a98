"""What the scrubber remembers comes back, and anything else is an empty record."""

import json

import pytest

from bookie_server.storage.scrub.record import (
    LEDGERS_MAX,
    ScrubPass,
    ScrubRecord,
    decode_scrub_record,
    encode_scrub_record,
)
from bookie_server.storage.scrub.walk import Damage, Position, Step

LAST = ScrubPass(began_ms=1, ended_ms=5, blocks=2, block_bytes=300, damaged_blocks=1, damaged_ledgers=(7,))
RECORD = ScrubRecord(current=ScrubPass(began_ms=9, blocks=1), position=Position(7, 20), last=LAST)


@pytest.mark.parametrize("record", [ScrubRecord(), RECORD, ScrubRecord(last=LAST)])
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
        },
        "position": {"ledger_id": 7, "entry_id": 20},
        "last": {
            "began_ms": 1,
            "ended_ms": 5,
            "blocks": 2,
            "block_bytes": 300,
            "damaged_blocks": 1,
            "damaged_ledgers": [7],
        },
    }


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"\xff", b"[1]", encode_scrub_record(RECORD).replace(b'"version": 1', b'"version": 2')],
)
def test_anything_else_is_an_empty_record(content: bytes) -> None:
    assert decode_scrub_record(content) == ScrubRecord()


def test_a_step_is_counted_and_its_ledgers_are_named_once() -> None:
    damage = tuple(Damage(ledger_id, 0, 1, "damaged") for ledger_id in (9, 4, 9))
    after = LAST.after(Step(3, 100, damage, None))
    assert after == ScrubPass(
        began_ms=1, ended_ms=5, blocks=5, block_bytes=400, damaged_blocks=4, damaged_ledgers=(4, 7, 9)
    )
    many = tuple(Damage(ledger_id, 0, 1, "damaged") for ledger_id in range(2 * LEDGERS_MAX))
    assert len(LAST.after(Step(1, 1, many, None)).damaged_ledgers) == LEDGERS_MAX
