"""A reader's machine in every interleaving with a rotation, a takeover, a deletion and the end of the log.

Source: docs/log-semantics.md#rule-26 to #rule-28.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations_with_replacement

import pytest

from dlog.core.commands import ReadRecord
from dlog.core.tailing import Finish, OpenLedger, ReadEntries, Tailing, WaitForEntries, WaitForLedger
from dlog.model import EARLIEST_ID, ListedLedger, LogMetadata, LogState, SealFacts
from ledger.model import LedgerId
from tests.helpers.log.lists import show, window_of

STEPS = 9
"""Of the reader, before which a change may happen."""
STEPS_MAX = 40


class World:
    """Ledger 5 is rotated to 6; a takeover seals both, and adopts one more entry of 5; its ledger is 9.

    If 6 is empty, the takeover drops it, and it may be deleted. At the end the log is sealed.
    """

    def __init__(self, *, entries_in_6: int, is_deleted: bool) -> None:
        self.ledgers = {5: (0, False), 6: (-1, False), 9: (-1, False)}
        """Last confirmed entry, and whether it is sealed, by ledger."""
        self.record = listing(5)
        last_in_6 = entries_in_6 - 1
        kept = {6: last_in_6} if entries_in_6 else {}
        self.expected = [(5, 0), (5, 1), *((6, entry_id) for entry_id in range(entries_in_6)), (9, 0)]
        self.changes: list[Callable[[], None]] = [
            lambda: self._list(listing(5, 6)),
            lambda: self._ledger(5, 1, sealed=True),
            lambda: self._list(listing(5, 6)),  # touched
            lambda: self._ledger(6, last_in_6, sealed=True),
            lambda: self._list(listing(5, *kept, 9, seals={5: 1, **kept})),
            *([lambda: self._delete(6)] if is_deleted else []),
            lambda: self._ledger(9, 0, sealed=False),
            lambda: self._ledger(9, 0, sealed=True),
            lambda: self._list(listing(5, *kept, 9, seals={5: 1, **kept, 9: 0}, state=LogState.SEALED)),
        ]

    def _list(self, record: LogMetadata) -> None:
        self.record = record

    def _ledger(self, ledger_id: int, last: int, *, sealed: bool) -> None:
        self.ledgers[ledger_id] = (last, sealed)

    def _delete(self, ledger_id: int) -> None:
        del self.ledgers[ledger_id]


def listing(
    *ledger_ids: int, seals: dict[int, int] | None = None, state: LogState = LogState.ACTIVE
) -> LogMetadata:
    facts = {
        each: SealFacts(last_entry=last, message_count=0, byte_count=0)
        for each, last in (seals or {}).items()
    }
    ledgers = tuple(
        ListedLedger(ledger_id=LedgerId(each), epoch=1, created_us=0, seal=facts.get(each))
        for each in ledger_ids
    )
    return LogMetadata(
        log_uuid="u", instance_id="i", ledgers=ledgers, last_ledger_id=max(ledger_ids), state=state
    )


def read_through(world: World, before_steps: tuple[int, ...], news_late: int) -> list[tuple[int, int]]:
    """The entries that the reader returns, if a change happens before each of these steps of it.

    It hears of a change of the record `news_late` steps later, unless it has read that record itself by then.
    """
    machine = Tailing("orders", position=EARLIEST_ID, from_earliest=True)
    returned: list[tuple[int, int]] = []
    announced: list[tuple[int, LogMetadata]] = []
    for step_number in range(STEPS_MAX):
        for _ in range(before_steps.count(step_number)):
            known = world.record
            world.changes.pop(0)()
            if world.record is not known:
                announced.append((step_number + news_late, world.record))
        while announced and announced[0][0] <= step_number:
            _, record = announced.pop(0)
            machine.on_newer_record(record, window_of(record, machine.position.ledger_id))
        match machine.next_step():
            case ReadRecord():
                show(machine, world.record)
                announced.clear()
            case OpenLedger(ledger_id) | WaitForEntries(ledger_id=ledger_id):
                if ledger_id in world.ledgers:
                    readable, sealed = world.ledgers[ledger_id]
                    machine.on_ledger(ledger_id, readable=readable, sealed=sealed)
                else:
                    machine.on_ledger_missing(ledger_id)
            case ReadEntries(ledger_id, first, _):
                returned.append((ledger_id, first))
                machine.on_read(ledger_id, first)
            case WaitForLedger():
                pass
            case Finish():
                return returned
            case step:
                raise AssertionError(f"nothing is lost or trimmed: {step}")
    raise AssertionError(f"at {machine.position} the reader waits without end: {machine.next_step()}")


@pytest.mark.parametrize("news_late", [0, 3])
@pytest.mark.parametrize(("entries_in_6", "is_deleted"), [(0, False), (0, True), (1, False)])
def test_a_reader_returns_each_entry_once_whatever_happens_when(
    entries_in_6: int, is_deleted: bool, news_late: int
) -> None:
    count = len(World(entries_in_6=entries_in_6, is_deleted=is_deleted).changes)
    for before_steps in combinations_with_replacement(range(STEPS), count):
        world = World(entries_in_6=entries_in_6, is_deleted=is_deleted)
        assert read_through(world, before_steps, news_late) == world.expected, before_steps
