"""The checks of inspections accept what a sound cluster answers, and find each answer that contradicts it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import pytest

from dlog.client import LogClient
from dlog.errors import DataLossError
from dlog.inspection.history import HistoryEvent
from dlog.inspection.verify import UncheckedLedger
from dlog.model import MessageId, SealFacts
from dlog.read.resolution import Resolution
from dlog.testing.checks.inspections import (
    Certain,
    c24_explanations_agree_with_outcomes,
    c24_histories_are_in_order,
    c24_inspections_change_nothing,
    c24_inspections_leave_nothing_out,
    c24_lists_agree,
    c24_no_sound_copy_is_accused,
    c24_overviews_agree_with_acknowledgements,
)
from dlog.testing.cluster import SimulatedCluster, simulate
from dlog.testing.network.frames import Said
from ledger.errors import ReadError
from ledger.inspection.copies import Copy, CopyState, LedgerCopies
from ledger.model import BookieId, LedgerId, QuorumSizes

ONE, TWO, THREE = BookieId("one:1"), BookieId("two:1"), BookieId("three:1")
QUORUM = QuorumSizes(ensemble=3, write=3, ack=2)
INTACT, MISSING = Copy(CopyState.INTACT, b"same", 4), Copy(CopyState.MISSING)
DAMAGED, SILENT = Copy(CopyState.DAMAGED, reason="EIO"), Copy(CopyState.UNREACHABLE)


def verified(*copies: Copy) -> Sequence[LedgerCopies | UncheckedLedger]:
    found = LedgerCopies(7, QUORUM)
    found.add(0, dict(zip((ONE, TWO, THREE), copies, strict=True)))
    return [found]


def accusations(certain: Certain, *copies: Copy) -> list[str]:
    return list(c24_no_sound_copy_is_accused(verified(*copies), certain))


def inspected(inspect: Callable[[LogClient, list[MessageId]], Awaitable[None]]) -> None:
    """With a log of three messages in three ledgers of two epochs."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ids = []
            async with client.open_writer("orders", create=True) as writer:
                ids.append(await writer.append(b"0"))
                await writer.rotate()
                ids.append(await writer.append(b"1"))
            async with client.open_writer("orders") as writer:
                ids.append(await writer.append(b"2"))
            await inspect(client, ids)

    simulate(main)


@pytest.mark.parametrize(
    "said",
    [
        Said("READ", 3, 0, besides="(fence)"),
        Said("READ", 3, -1, besides="and on (fence)"),
        Said("ADD", 3, 0, besides="(recovery)", lac=-1),
        Said("WRITE_LAC", 3, lac=4),
        Said("FORCE_LEDGER", 3),
    ],
    ids=str,
)
def test_a_request_that_changes_something_is_found(said: Said) -> None:
    assert list(c24_inspections_change_nothing(said)) == [f"sent {said}"]
    assert not list(c24_inspections_change_nothing(Said("READ", 3, 0, besides="at most 8")))


def test_a_copy_that_a_bookie_has_acknowledged_is_not_missing() -> None:
    certain = Certain(promised={THREE: {7: frozenset({0})}})
    [found] = accusations(certain, INTACT, INTACT, MISSING)
    assert "missing on three:1, which had acknowledged them" in found
    assert not accusations(certain, INTACT, MISSING, INTACT), "it was never acknowledged there"
    assert not accusations(replace(certain, is_sound=lambda _: False), INTACT, INTACT, MISSING)


def test_a_copy_is_damaged_only_on_a_bookie_with_damage_or_a_failed_read() -> None:
    [found] = accusations(Certain(), INTACT, INTACT, DAMAGED)
    assert "damaged on three:1: EIO" in found
    assert not accusations(Certain(has_failed_reads=lambda each: each == THREE), INTACT, INTACT, DAMAGED)
    assert not accusations(Certain(is_sound=lambda each: each != THREE), INTACT, INTACT, DAMAGED)


def test_too_few_copies_are_found_unless_an_unsound_bookie_explains_them() -> None:
    [found] = accusations(Certain(), INTACT, MISSING, MISSING)
    assert "below the ack quorum" in found
    [found] = accusations(Certain(), MISSING, MISSING, MISSING)
    assert "are lost" in found
    assert not accusations(Certain(), INTACT, SILENT, MISSING), "the silent one may have it"
    assert not accusations(Certain(is_sound=lambda each: each != TWO), INTACT, MISSING, MISSING)


def test_a_verdict_that_takes_silence_for_a_loss_is_found() -> None:
    [found] = verified(INTACT, SILENT, SILENT)
    assert isinstance(found, LedgerCopies)
    assert not list(c24_no_sound_copy_is_accused([found], Certain()))
    found.findings[0].verdict = type(found.findings[0].verdict).BELOW_ACK_QUORUM
    assert list(c24_no_sound_copy_is_accused([found], Certain()))


def test_copies_that_differ_are_found() -> None:
    [found] = accusations(Certain(), INTACT, INTACT, replace(INTACT, hashed=b"other"))
    assert "are different" in found


def test_a_ledger_is_unchecked_only_if_bookies_do_not_respond() -> None:
    silent, lost = ReadError("no"), DataLossError("no", ledger_id=7)
    assert not list(c24_no_sound_copy_is_accused([UncheckedLedger(LedgerId(7), silent)], Certain()))
    assert list(c24_no_sound_copy_is_accused([UncheckedLedger(LedgerId(7), lost)], Certain()))


def test_what_was_acknowledged_is_reported_unless_it_may_be_trimmed() -> None:
    certain = Certain(acked=[MessageId(7, 1), MessageId(9, 4)], ends={7: 1})
    assert not list(c24_inspections_leave_nothing_out({7: 2, 9: 5}, certain))
    assert not list(c24_inspections_leave_nothing_out({7: 2, 9: -1}, certain)), "it is open"
    [missing] = c24_inspections_leave_nothing_out({9: 5}, certain)
    assert "ledger 7 is not reported" in missing
    [short] = c24_inspections_leave_nothing_out({7: 2, 9: 4}, certain)
    assert "ledger 9 has 4 entries, but entry 4 was acknowledged" in short
    [long] = c24_inspections_leave_nothing_out({7: 3, 9: 5}, certain)
    assert "ledger 7 has 3 entries, but it ends with entry 1" in long
    trimmed = replace(certain, trimmed_before=MessageId(9, 0))
    assert not list(c24_inspections_leave_nothing_out({9: 5}, trimmed))


def test_lists_that_contradict_each_other_are_found() -> None:
    async def inspect(client: LogClient, ids: list[MessageId]) -> None:
        listed = list(await client.list_ledgers("orders"))
        assert not list(c24_lists_agree(listed, {}))
        assert list(c24_lists_agree(listed[::-1], {}))
        earlier = {each.ledger_id: replace(each, seal=None) for each in listed}
        assert not list(c24_lists_agree(listed, earlier))
        assert earlier == {each.ledger_id: each for each in listed}, "seals are remembered"
        first = replace(listed[0], seal=SealFacts(last_entry=9, message_count=10, byte_count=10))
        assert any("was sealed before" in found for found in c24_lists_agree([first], earlier))
        assert any(" before" in found for found in c24_lists_agree([replace(listed[0], epoch=9)], earlier))

    inspected(inspect)


def test_a_history_that_is_not_in_order_is_found() -> None:
    async def inspect(client: LogClient, ids: list[MessageId]) -> None:
        events = list(await client.history("orders"))
        assert [event.takeover for event in events] == [True, False, True]
        assert not list(c24_histories_are_in_order(events))

        def wrong(at: int, event: HistoryEvent) -> list[str]:
            return list(c24_histories_are_in_order([*events[:at], event, *events[at + 1 :]]))

        assert wrong(1, replace(events[1], takeover=True))
        assert wrong(2, replace(events[2], takeover=False))
        assert wrong(2, replace(events[2], epoch=0))
        assert wrong(2, replace(events[2], pause_us=-1))
        assert wrong(2, replace(events[2], empty_epochs=range(1, 2)))
        assert wrong(1, replace(events[1], listed=None))

    inspected(inspect)


def test_an_overview_below_what_was_acknowledged_is_found() -> None:
    async def inspect(client: LogClient, ids: list[MessageId]) -> None:
        found, certain = await client.overview("orders"), Certain(acked=ids)
        assert not list(c24_overviews_agree_with_acknowledgements(found, certain))
        more = Certain(acked=[*ids, MessageId(ids[-1].ledger_id, 1)])
        assert len(list(c24_overviews_agree_with_acknowledgements(found, more))) == 2
        later = replace(found, first=ids[1])
        assert list(c24_overviews_agree_with_acknowledgements(later, certain))
        trimmed = replace(certain, trimmed_before=ids[1])
        assert not list(c24_overviews_agree_with_acknowledgements(later, trimmed))

    inspected(inspect)


def test_an_explanation_that_contradicts_an_outcome_is_found() -> None:
    async def inspect(client: LogClient, ids: list[MessageId]) -> None:
        found, certain = await client.explain("orders", ids[1]), Certain(acked=ids)
        assert found.copies is not None
        assert not list(c24_explanations_agree_with_outcomes(found, b"1", certain))
        assert list(c24_explanations_agree_with_outcomes(found, b"2", certain))
        absent = replace(found, resolution=Resolution.ABSENT)
        assert list(c24_explanations_agree_with_outcomes(absent, None, certain))
        hidden = replace(found, message=None)
        assert list(c24_explanations_agree_with_outcomes(hidden, None, certain))
        nowhere = replace(absent, message=None, batch=None)
        assert list(c24_explanations_agree_with_outcomes(nowhere, b"1", certain))
        assert not list(c24_explanations_agree_with_outcomes(nowhere, None, certain))
        trimmed = replace(certain, trimmed_before=ids[2])
        assert not list(c24_explanations_agree_with_outcomes(nowhere, b"1", trimmed))
        lost = replace(found, copies=dict.fromkeys(found.copies, MISSING))
        assert list(c24_explanations_agree_with_outcomes(lost, None, certain))

    inspected(inspect)
