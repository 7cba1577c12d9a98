"""Offsets in Spark's checkpoint: one text for each, and only what was written is read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dlog.model import MessageId
from spark_connector.errors import OffsetFormatError
from spark_connector.stream.offsets import LogPosition, StreamOffset, first_start, parse_offset

UUID = "0a1b2c3d-0000-4000-8000-000000000001"
ORIGIN, NEXT = MessageId(1, 2, 3), MessageId(4, 5, 6)


def offset(next: MessageId = NEXT, origin: MessageId = ORIGIN, uuid: str = UUID) -> StreamOffset:
    return StreamOffset({"orders": LogPosition(origin=origin, next=next, log_uuid=uuid)})


def test_it_is_read_as_it_was_written_through_json() -> None:
    text = json.dumps(offset().to_json())
    assert text == (
        f'{{"v": 1, "o": {{"orders": [1, 2, 3]}}, "p": {{"orders": [4, 5, 6]}}, "g": {{"orders": "{UUID}"}}}}'
    )
    assert parse_offset(json.loads(text)) == offset()


def test_logs_are_written_in_one_order() -> None:
    position = offset().logs["orders"]
    one, two = StreamOffset({"a": position, "b": position}), StreamOffset({"b": position, "a": position})
    assert json.dumps(one.to_json()) == json.dumps(two.to_json())


def test_a_newer_version_is_refused_with_its_sentence() -> None:
    with pytest.raises(OffsetFormatError, match="offsets of version 2, this dlog reads version 1"):
        parse_offset(offset().to_json() | {"v": 2})


@pytest.mark.parametrize(
    "changed",
    [
        {"p": {}},
        {"p": {"orders": [4, 5]}},
        {"p": {"orders": [4, 5, -1]}},
        {"p": {"orders": [4, 5, 2**31]}},
        {"p": {"orders": [4, 2**63, 0]}},
        {"p": {"orders": [4, 5, 1.0]}},
        {"p": {"orders": [4, 5, True]}},
        {"p": {"orders": "4:5:6"}},
        {"o": {"orders": None}},
        {"g": {"orders": 7}},
        {"g": {"invoices": UUID}},
        {"p": ["orders"]},
        {"p": 5},
        {"p": None},
        {"o": None},
        {"g": 5},
        {"extra": 1},
    ],
)
def test_what_is_no_offset_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(OffsetFormatError, match="which is no offset of a log"):
        parse_offset(offset().to_json() | changed)


@pytest.mark.parametrize("found", [None, [], "1", {}, {"orders": 7}])
def test_nor_is_what_another_program_wrote(found: object) -> None:
    with pytest.raises(OffsetFormatError):
        parse_offset(found)


def test_the_first_batch_begins_where_its_end_says() -> None:
    """`latest` was another id when the query was started again."""
    later = offset(MessageId(9, 0, 0), MessageId(9, 0, 0))
    assert first_start(later, offset()) == offset(next=ORIGIN)


def test_a_later_batch_begins_where_the_one_before_it_ended() -> None:
    before = offset(MessageId(2, 0, 0))
    assert first_start(before, offset()) == before


def test_a_log_that_is_new_or_another_one_begins_where_the_end_says() -> None:
    """And one that the end does not have is not read."""
    before = StreamOffset(
        {"gone": offset().logs["orders"], "orders": offset(NEXT, uuid="old").logs["orders"]}
    )
    new = LogPosition(origin=MessageId(8, 0, 0), next=MessageId(9, 0, 0), log_uuid=UUID)
    end = StreamOffset({"new": new, "orders": offset(MessageId(9, 9, 9)).logs["orders"]})
    started = first_start(before, end).logs
    assert {log: position.next for log, position in started.items()} == {
        "new": MessageId(8, 0, 0),
        "orders": ORIGIN,
    }
