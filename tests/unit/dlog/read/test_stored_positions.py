"""A reader that stored its position, or the id of its last message, and comes back, after any history of the log.

Property: it gets TrimmedError if, and only if, a message that it has not returned was trimmed; else it returns every
message after its position, each once. An id does not tell whether its entry holds more messages.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dlog.core.commands import ReadRecord
from dlog.core.metadata_changes import shrunk, taken_over, with_new_ledger
from dlog.core.tailing import (
    CountMessages,
    Finish,
    OpenLedger,
    ReadEntries,
    Tailing,
    WaitForEntries,
    WaitForLedger,
)
from dlog.errors import TrimmedError
from dlog.model import EARLIEST_ID, LogMetadata, LogState, MessageId, SealFacts
from dlog.read.tail import _tail_of_record
from ledger.model import LedgerId
from tests.helpers.log.lists import cut_of, show
from tests.helpers.log.records import ALICE, listed, record


@dataclass
class Log:
    """Each ledger's entries by the messages they hold; a ledger is closed when its successor takes appends."""

    record: LogMetadata = field(default_factory=lambda: record(listed(0)))
    entries: dict[LedgerId, list[int]] = field(default_factory=lambda: {LedgerId(0): []})

    @property
    def current(self) -> LedgerId:
        return max(self.entries)

    @property
    def tail(self) -> MessageId:
        return MessageId(self.current, len(self.entries[self.current]), 0)

    def messages(self) -> list[MessageId]:
        return [
            MessageId(one, entry, index)
            for one, entries in sorted(self.entries.items())
            for entry, count in enumerate(entries)
            for index in range(count)
        ]

    def append(self, count: int = 1) -> None:
        self.entries[self.current].append(count)

    def _seals(self) -> dict[LedgerId, SealFacts]:
        return {
            one: SealFacts(last_entry=len(counts) - 1, message_count=sum(counts), byte_count=sum(counts))
            for one, counts in self.entries.items()
        }

    def rotate(self) -> None:
        """The seal of the ledger so far is recorded with the next change of the list, not with this one."""
        seals, before = self._seals(), self.current
        del seals[before]
        new = LedgerId(before + 2)
        self.record = with_new_ledger(self.record, listed(new), seals, nonce=1)
        self.entries[new] = []

    def take_over(self) -> None:
        new = LedgerId(self.current + 2)
        self.record = taken_over(self.record, listed(new), ALICE, self._seals(), now_us=0, nonce=1)
        self.entries[new] = []

    def shrink(self, before: MessageId) -> None:
        before = min(before, self.tail)
        cut = cut_of(self.record, before)
        end = None if cut is None else cut.end
        count = None if end is None else self.entries[LedgerId(end.ledger_id)][end.entry_id]
        self.record = shrunk(self.record, before, cut, nonce=1, last_count=count)

    def read(self, position: MessageId) -> tuple[list[MessageId], MessageId]:
        """What a reader returns from there until it waits, and its position then."""
        machine, found = Tailing("orders", position=position), []
        while True:
            match machine.next_step():
                case ReadRecord():
                    show(machine, self.record)
                case OpenLedger(ledger_id):
                    self._open(machine, ledger_id)
                case ReadEntries(ledger_id, first, last):
                    at = machine.position
                    found += [
                        one
                        for one in self.messages()
                        if at <= one and self._within(one, ledger_id, first, last)
                    ]
                    machine.on_read(ledger_id, last)
                case CountMessages(ledger_id, entry_id):
                    machine.on_count(ledger_id, entry_id, self.entries[LedgerId(ledger_id)][entry_id])
                case WaitForEntries(ledger_id, beyond) if (ledger_id, beyond) != self._end(ledger_id):
                    self._open(machine, ledger_id)
                case WaitForEntries() | WaitForLedger() | Finish():
                    return found, machine.position
                case step:
                    raise AssertionError(step)

    @staticmethod
    def _within(one: MessageId, ledger_id: int, first: int, last: int) -> bool:
        return one.ledger_id == ledger_id and first <= one.entry_id <= last

    def _end(self, ledger_id: int) -> tuple[int, int]:
        return ledger_id, len(self.entries[LedgerId(ledger_id)]) - 1

    def _open(self, machine: Tailing, ledger_id: int) -> None:
        if self.record.find_recent(ledger_id) is None:
            machine.on_ledger_missing(ledger_id)
        else:
            machine.on_ledger(ledger_id, readable=self._end(ledger_id)[1], sealed=ledger_id != self.current)


CHANGES = st.lists(
    st.one_of(
        st.sampled_from(("append", "append", "append", "rotate", "take over", "read", "read a part")),
        st.integers(2, 3),
        st.builds(MessageId, st.integers(0, 14), st.integers(0, 4), st.integers(0, 1)),
        st.just("shrink to the tail"),
        st.just("shrink to the current ledger"),
    ),
    max_size=30,
)


@given(CHANGES, st.booleans())
@settings(max_examples=800, deadline=None)
def test_a_stored_position_is_trimmed_only_if_a_message_was_missed(
    changes: list[object], by_last_id: bool
) -> None:
    log, position = Log(), EARLIEST_ID
    for change in (*changes, "read"):
        match change:
            case "append":
                log.append()
            case int():
                log.append(change)
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
                    if found and by_last_id:
                        position = _behind(found[-1])
            case "read a part":
                ahead = [one for one in log.messages() if one >= max(position, log.record.trim_before)]
                position = _behind(ahead[len(ahead) // 2]) if ahead else position


def _behind(last: MessageId) -> MessageId:
    """What `after=last` means."""
    return last._replace(batch_index=last.batch_index + 1)


def test_a_caught_up_reader_comes_back_after_a_rotation_and_a_shrink() -> None:
    """Its ledger is sealed where it stood, and trimmed to the start of the next; then it leaves the list, too."""
    log = Log()
    for _ in range(3):
        log.append()
    _, position = log.read(EARLIEST_ID)
    log.rotate()
    log.append()
    log.shrink(MessageId(log.current, 0, 0))
    assert log.record.find_recent(position.ledger_id) is not None, "its seal is not recorded yet"
    assert log.read(position)[0] == [MessageId(log.current, 0, 0)]
    log.take_over()
    log.shrink(MessageId(2, 0, 0))
    assert log.record.find_recent(position.ledger_id) is None
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
