"""A reader that stored its position and comes back, after any history of the log.

Property: it gets TrimmedError if, and only if, a message that it has not returned was trimmed; else it returns every
message after its position, each once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dlog.core.record_changes import shrunk, taken_over, with_new_ledger
from dlog.core.tailing import (
    Finish,
    OpenLedger,
    ReadEntries,
    ReadRecord,
    Tailing,
    WaitForEntries,
    WaitForLedger,
)
from dlog.errors import TrimmedError
from dlog.model import EARLIEST_ID, LogRecord, LogState, MessageId, SealFacts
from dlog.tail_position import _tail_of_record
from ledger.model import LedgerId
from tests.unit.dlog.records import ALICE, listed, record


@dataclass
class Log:
    """One message an entry; a ledger is closed when its successor takes appends."""

    record: LogRecord = field(default_factory=lambda: record(listed(0)))
    entries: dict[LedgerId, int] = field(default_factory=lambda: {LedgerId(0): 0})

    @property
    def current(self) -> LedgerId:
        return max(self.entries)

    @property
    def tail(self) -> MessageId:
        return MessageId(self.current, self.entries[self.current], 0)

    def messages(self) -> list[MessageId]:
        return [
            MessageId(one, entry, 0) for one, count in sorted(self.entries.items()) for entry in range(count)
        ]

    def append(self) -> None:
        self.entries[self.current] += 1

    def _seals(self) -> dict[LedgerId, SealFacts]:
        return {
            one: SealFacts(last_entry=count - 1, message_count=count, byte_count=count)
            for one, count in self.entries.items()
        }

    def rotate(self) -> None:
        """The seal of the ledger so far is recorded with the next change of the list, not with this one."""
        seals, before = self._seals(), self.current
        del seals[before]
        new = LedgerId(before + 2)
        self.record = with_new_ledger(self.record, listed(new), seals, nonce=1)
        self.entries[new] = 0

    def take_over(self) -> None:
        new = LedgerId(self.current + 2)
        self.record = taken_over(self.record, listed(new), ALICE, self._seals(), now_us=0, nonce=1)
        self.entries[new] = 0

    def shrink(self, before: MessageId) -> None:
        self.record = shrunk(self.record, min(before, self.tail), nonce=1)

    def read(self, position: MessageId) -> tuple[list[MessageId], MessageId]:
        """What a reader returns from there until it waits, and its position then."""
        machine, found = Tailing("orders", position=position), []
        while True:
            match machine.next_step():
                case ReadRecord():
                    machine.on_record(self.record)
                case OpenLedger(ledger_id):
                    self._open(machine, ledger_id)
                case ReadEntries(ledger_id, first, last):
                    found += [MessageId(ledger_id, entry, 0) for entry in range(first, last + 1)]
                    machine.on_read(ledger_id, last)
                case WaitForEntries(ledger_id, beyond) if (ledger_id, beyond) != self._end(ledger_id):
                    self._open(machine, ledger_id)
                case WaitForEntries() | WaitForLedger() | Finish():
                    return found, machine.position
                case step:
                    raise AssertionError(step)

    def _end(self, ledger_id: int) -> tuple[int, int]:
        return ledger_id, self.entries[LedgerId(ledger_id)] - 1

    def _open(self, machine: Tailing, ledger_id: int) -> None:
        if self.record.find(ledger_id) is None:
            machine.on_ledger_missing(ledger_id)
        else:
            machine.on_ledger(ledger_id, readable=self._end(ledger_id)[1], sealed=ledger_id != self.current)


CHANGES = st.lists(
    st.one_of(
        st.sampled_from(("append", "append", "append", "rotate", "take over", "read")),
        st.builds(MessageId, st.integers(0, 14), st.integers(0, 4), st.integers(0, 1)),
        st.just("shrink to the tail"),
        st.just("shrink to the current ledger"),
    ),
    max_size=30,
)


@given(CHANGES)
@settings(max_examples=500, deadline=None)
def test_a_stored_position_is_trimmed_only_if_a_message_was_missed(changes: list[object]) -> None:
    log, position = Log(), EARLIEST_ID
    for change in (*changes, "read"):
        match change:
            case "append":
                log.append()
            case "rotate":
                log.rotate()
            case "take over":
                log.take_over()
            case MessageId():
                log.shrink(change)
            case "shrink to the tail":
                log.shrink(log.tail)
            case "shrink to the current ledger":
                log.shrink(MessageId(log.current, 0, 0))
            case "read":
                ahead = [one for one in log.messages() if one >= position]
                missed = [one for one in ahead if one < log.record.trim_before]
                try:
                    found, position = log.read(position)
                except TrimmedError as error:
                    assert missed, f"{error}, and nothing was missed"
                    position = error.facts["earliest"]  # type: ignore[assignment]  # a MessageId
                else:
                    assert not missed, f"missed {missed} in silence"
                    assert found == ahead


def test_a_caught_up_reader_comes_back_after_a_rotation_and_a_shrink() -> None:
    """Its ledger is sealed where it stood, and trimmed to the start of the next; then it leaves the list, too."""
    log = Log()
    for _ in range(3):
        log.append()
    _, position = log.read(EARLIEST_ID)
    log.rotate()
    log.append()
    log.shrink(MessageId(log.current, 0, 0))
    assert log.record.find(position.ledger_id) is not None, "its seal is not recorded yet"
    assert log.read(position)[0] == [MessageId(log.current, 0, 0)]
    log.take_over()
    log.shrink(MessageId(2, 0, 0))
    assert log.record.find(position.ledger_id) is None
    assert log.read(position)[0] == [MessageId(2, 0, 0)]


async def test_a_log_without_ledgers_ends_where_it_was_trimmed() -> None:
    """Its last ledger was empty when it was sealed: it left the list, and the trim id is above it."""
    log = Log()
    log.append()
    log.rotate()
    log.shrink(MessageId(2, 0, 0))
    log.take_over()
    log.shrink(MessageId(4, 0, 0))
    empty = replace(log.record, ledgers=(), state=LogState.SEALED)

    async def never(_: LedgerId) -> Any:
        raise AssertionError("there is no ledger to open")

    assert await _tail_of_record(empty, never) == log.record.trim_before > EARLIEST_ID
