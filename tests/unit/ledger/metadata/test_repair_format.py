"""The values of autorecovery: the bytes that Apache BookKeeper 4.18 wrote, and damaged ones."""

from __future__ import annotations

import pytest

from ledger.errors import InvalidNameError, MetadataFormatError
from ledger.metadata.format.repair import (
    check_repair_layout,
    decode_check_time,
    decode_delay,
    decode_mark,
    encode_check_time,
    encode_delay,
    encode_holder,
    encode_mark,
    encode_repair_layout,
    encode_vote,
    merged_mark,
    shown_mark,
    shown_name,
)
from ledger.metadata.repair_store import UnderReplicated
from ledger.model import BookieId, LedgerId
from tests.helpers.metadata import vectors

TREE = "/underreplication"
APACHES = {path: value for path, value, _ in vectors.nodes() if path.startswith(TREE)}
LEDGER = LedgerId(4294967298)
MARK = APACHES[f"{TREE}/ledgers/0000/0001/0000/0002/urL4294967298"]
B = BookieId("127.0.0.1:3186")


def test_a_mark_has_the_bytes_of_apaches() -> None:
    mark = UnderReplicated(LEDGER, (B,), 1795212178982)
    assert encode_mark(mark) == MARK
    assert decode_mark(LEDGER, MARK) == mark
    assert merged_mark(LEDGER, None, [B], 1795212178982) == MARK


def test_a_mark_without_a_time_keeps_none() -> None:
    """Apache's auditor leaves it out where it is told to."""
    merged = merged_mark(LEDGER, b'replica: "b-1"\n', [B], 9)
    assert merged == b'replica: "b-1"\nreplica: "127.0.0.1:3186"\n'
    assert decode_mark(LEDGER, merged).marked_ms is None


@pytest.mark.parametrize(
    "damaged",
    [b"replica: 7", b"\xff", b'replica: "a b"', b'replica: "b-1', b"colour: { ]", rb'replica: "\q"'],
)
def test_a_damaged_mark_is_an_error_and_is_replaced_by_the_next(damaged: bytes) -> None:
    with pytest.raises(MetadataFormatError, match="mark of ledger 4294967298 is damaged: ") as raised:
        decode_mark(LEDGER, damaged)
    assert "Message type" not in str(raised.value) and "Expected" not in str(raised.value)
    assert raised.value.key == LEDGER
    assert merged_mark(LEDGER, damaged, [B], 1795212178982) == MARK


def test_the_warning_of_a_damaged_mark_names_what_follows(caplog: pytest.LogCaptureFixture) -> None:
    assert shown_mark(LEDGER, b"replica: 7") == UnderReplicated(LEDGER, (), None)
    [line] = caplog.messages
    assert line.endswith("; all copies of that ledger are checked, as if it named no bookie")


def test_votes_and_locks_have_the_bytes_of_apaches() -> None:
    assert encode_vote("127.0.0.1:3189") == APACHES[f"{TREE}/auditorelection"]
    assert encode_vote("127.0.0.1:3189") == APACHES[f"{TREE}/auditorelection/V_0000000000"]
    assert encode_holder("host") == b'bookieId: "host"\n'
    assert shown_name(b'bookieId: "host"\n') == "host"
    assert shown_name(b"\xff") == repr(b"\xff")
    with pytest.raises(InvalidNameError, match="not valid"):
        encode_vote("no name")


def test_the_layout_has_the_bytes_of_apaches_and_another_is_refused() -> None:
    assert encode_repair_layout() == APACHES[f"{TREE}/LAYOUT"]
    check_repair_layout(APACHES[f"{TREE}/LAYOUT"])
    for other in (b'type: "BASIC"\nversion: 2\n', b'type: "NEW"\nversion: 1\n'):
        with pytest.raises(MetadataFormatError, match="known here is BASIC version 1"):
            check_repair_layout(other)
    with pytest.raises(MetadataFormatError, match="lacks a required field"):
        check_repair_layout(b"version: 1\n")


def test_delay_and_check_time_have_the_bytes_of_apaches() -> None:
    assert encode_delay(0) == APACHES[f"{TREE}/lostBookieRecoveryDelay"]
    assert decode_delay(b"60") == 60
    assert decode_delay(encode_delay(2**31 - 1)) == 2**31 - 1
    with pytest.raises(
        MetadataFormatError,
        match=r"is 'soon', not a number of seconds .*repair-settings --lost-bookie-delay SECONDS",
    ):
        decode_delay(b"soon")
    checked = APACHES[f"{TREE}/checkallledgersctime"]
    time_ms = decode_check_time(checked)
    assert time_ms is not None and encode_check_time(time_ms) == checked
    assert decode_check_time(b"\xff") is None
    assert decode_check_time(b"") is None
