"""Ids as text. `MessageIds` is a sequence of ids that compares and hashes as the tuple of them, which it stands for."""

from __future__ import annotations

import pytest

from dlog.model import NO_MESSAGE, MessageId, MessageIds
from ledger.errors import InvalidNameError

IDS = MessageIds(1, 2, 2)


@pytest.mark.parametrize("message_id", [MessageId(17, 420, 3), MessageId(0, 0, 0), NO_MESSAGE])
def test_the_text_of_an_id_is_read_as_the_id(message_id: MessageId) -> None:
    assert MessageId.parse(str(message_id)) == MessageId.of(str(message_id)) == message_id


@pytest.mark.parametrize("text", ["-1:-1:1", "-1:0:0", "-01:-1:0", "-1:-1:0 ", "-1:-1"])
def test_no_other_text_has_negative_numbers(text: str) -> None:
    with pytest.raises(InvalidNameError, match="is not valid: write LEDGER:ENTRY:BATCH"):
        MessageId.parse(text)


@pytest.mark.parametrize("same", [tuple(IDS), MessageIds(1, 2, 2)])
def test_what_is_equal_is_found_in_a_set(same: object) -> None:
    assert same == IDS and hash(IDS) == hash(same)
    assert IDS in {same}


@pytest.mark.parametrize("ids", [IDS, MessageIds(0, 0, 0)])
def test_equal_to_a_list_of_the_ids(ids: MessageIds) -> None:
    assert ids == list(ids)


@pytest.mark.parametrize(
    ("ids", "other"),
    [
        (IDS, (MessageId(1, 2, 0),)),
        (IDS, (MessageId(1, 2, 0), MessageId(1, 2, 2))),
        (IDS, MessageIds(1, 3, 2)),
        (MessageIds(1, 2, 0), ""),
        (MessageIds(1, 2, 0), range(0)),
    ],
)
def test_not_equal(ids: MessageIds, other: object) -> None:
    assert ids != other
