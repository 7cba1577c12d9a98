"""Metadata that moved as it must not is found, and what is allowed is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dlog.format.history_page import encode_page
from dlog.format.log_metadata import encode_record
from dlog.ledger_list.listing import NamedPage, Sizes, archived
from dlog.ledger_list.page import LedgerPage
from dlog.model import LogMetadata, MessageId
from dlog.testing.checks.transitions import c13_ledger_metadata_moves_legally, c13_log_records_move_legally
from ledger.metadata.format.ledger import encode_ledger_metadata
from ledger.model import EntryId, Fragment, LedgerMetadata, LedgerState, QuorumSizes
from tests.helpers.log.records import BOB, listed, record, seal
from tests.helpers.metadata.register_history import (
    B2,
    B3,
    CHANGED,
    CLOSED,
    OPEN,
    RECOVERING,
    REPAIRED,
    history,
)


def ledger_findings(*states: LedgerMetadata) -> list[str]:
    values = map(encode_ledger_metadata, states)
    return list(c13_ledger_metadata_moves_legally(history("ledger/1", *values)))


def record_findings(*records: LogMetadata) -> list[str]:
    return list(c13_log_records_move_legally(history("/logs/x/record", *map(encode_record, records))))


def test_the_grace_rises_with_a_takeover_and_never_falls() -> None:
    before = replace(record(listed(1)), grace_us=5)
    raised = replace(before, grace_us=6)
    assert record_findings(before, replace(raised, epoch=2, owner=BOB)) == []
    assert len(record_findings(before, raised)) == 1
    assert len(record_findings(raised, replace(before, epoch=2, owner=BOB))) == 1


def test_a_ledgers_life_is_legal() -> None:
    assert ledger_findings(OPEN, CHANGED, RECOVERING, CLOSED, REPAIRED) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (RECOVERING, CHANGED),
        (CLOSED, RECOVERING),
        (CLOSED, replace(CLOSED, last_entry=EntryId(8))),
        (CHANGED, OPEN),
        (OPEN.with_state(LedgerState.IN_RECOVERY), RECOVERING),
        (CHANGED, replace(CHANGED, fragments=(Fragment(EntryId(0), (B2, B3)), CHANGED.fragments[1]))),
        (CLOSED, replace(CLOSED, fragments=CLOSED.fragments[:1])),
        (OPEN, replace(OPEN, quorum=QuorumSizes(ensemble=2, write=2, ack=2))),
    ],
)
def test_an_illegal_change_of_a_ledger_is_found(before: LedgerMetadata, after: LedgerMetadata) -> None:
    assert ledger_findings(before, after)


@pytest.mark.parametrize(
    ("closed_by", "marked", "sound"), [("a", False, True), ("b", True, True), ("b", False, False)]
)
def test_an_open_ledger_that_another_client_closes_is_found(
    closed_by: str, marked: bool, sound: bool
) -> None:
    states = (CHANGED, RECOVERING, CLOSED) if marked else (CHANGED, CLOSED)
    changes = history("ledger/1", *map(encode_ledger_metadata, states))
    changes.calls[0].operation = "create"
    for call in changes.calls[1:]:
        call.client = closed_by
    assert (not list(c13_ledger_metadata_moves_legally(changes))) == sound


START = record(listed(1, 4), listed(2))


def test_a_logs_life_is_legal() -> None:
    rotated = replace(START, ledgers=(*START.ledgers, listed(5)), last_ledger_id=5)
    sealed = replace(rotated, ledgers=(START.ledgers[0], listed(2, 3), listed(5)))
    trimmed = replace(sealed, ledgers=sealed.ledgers[1:], trim_before=MessageId(2, 0, 0))
    assert record_findings(START, rotated, sealed, trimmed) == []


def paged_findings(*records: LogMetadata, pages: tuple[NamedPage, ...]) -> list[str]:
    changes = history("/logs/x/record", *map(encode_record, records))
    for each in pages:
        for call in history(f"/logs/x/pages/{each.name}", encode_page(each.page)).calls:
            changes.calls.append(replace(call, operation="create"))
    return list(c13_log_records_move_legally(changes))


def test_ledgers_that_move_into_pages_stay_listed() -> None:
    whole = record(*(listed(number, 4) for number in range(1, 6)))
    moved, pages = archived(whole, lambda level, first: f"{level}-{first}", Sizes(2, 2, 2))
    assert len(moved.pages) == 1 and len(pages) == 1
    assert paged_findings(whole, moved, pages=pages) == []
    [page] = pages
    assert isinstance(page.page, LedgerPage)
    other = NamedPage(page.name, LedgerPage(page.page.ledgers[:1]))
    resealed = NamedPage(page.name, LedgerPage((listed(1, 5), listed(2, 3))))
    cut = replace(moved, pages=())
    for wrong in (
        paged_findings(whole, moved, pages=()),
        paged_findings(whole, moved, pages=(other,)),
        paged_findings(whole, moved, pages=(resealed,)),
        paged_findings(whole, cut, pages=()),
        paged_findings(whole, replace(moved, first_id=2), pages=pages),
        paged_findings(replace(moved, first_id=2), moved, pages=pages),
    ):
        assert wrong
    trimmed = replace(moved, first_id=2, trim_before=MessageId(2, 0, 0))
    assert paged_findings(whole, moved, trimmed, pages=pages) == []


@pytest.mark.parametrize(
    "after",
    [
        replace(START, last_ledger_id=9, ledgers=(listed(1, 3), listed(2))),
        replace(START, epoch=START.epoch + 1),
        replace(START, last_ledger_id=9, ledgers=(*START.ledgers, listed(5), listed(6))),
        replace(START, last_ledger_id=9, ledgers=(listed(1), listed(2, 3))),
        replace(START, log_uuid="another"),
        replace(START, last_ledger_id=5, ledgers=START.ledgers[:1]),
    ],
)
def test_an_illegal_change_of_a_log_is_found(after: LogMetadata) -> None:
    assert record_findings(replace(START, last_ledger_id=5), after)


def test_a_trim_id_that_falls_is_found() -> None:
    trimmed = replace(START, trim_before=MessageId(1, 2, 0))
    assert record_findings(trimmed, START)
    assert not record_findings(START, trimmed)


def test_a_seal_that_changes_is_found() -> None:
    resealed = replace(START, ledgers=(replace(START.ledgers[0], seal=seal(5)), START.ledgers[1]))
    assert record_findings(START, resealed)
