"""What a reader does next, from ledger to ledger. Pure.

Invariant (docs/log-semantics.md#rule-26 to #rule-30):

- In a sealed ledger read to its last entry, in an unsealed one to its LAC, never further.
- A successor in the list is no permission to advance. Only the ledger's own seal is. The record may be older than that
  seal if it lists a successor: no ledger ever enters the list below a listed one, and one that has left the list since
  was sealed empty or trimmed, which a fresh record shows at its end. If the record lists none, a fresh one is read.
- A ledger that the log no longer lists was trimmed (the position is below `trim_before`) or dropped empty; one that is
  listed and does not exist is data loss. Neither is ever skipped in silence.
- So is a ledger whose metadata is damaged. Either is passed only if its end is known: the record has its seal, or lists
  a ledger after it. Its writer needs no metadata to append, and what it appends has ids in the gap.
- A page of the list that is missing or damaged is data loss of everything within its bounds. What the reader holds open
  of it is still read.
- A position below `trim_before` has missed something only if a message at or after it was trimmed: a reader that had
  returned all of its ledger, which was then sealed and trimmed, continues after it. A position inside an entry is
  after the entry if no message of it is left, which only the entry shows.

The shell asks `next_step`, executes the step and reports by one of the `on_…` methods; it may report that
the record has changed at any time. Positions are the next id to fetch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum

from dlog.core.commands import ReadRecord
from dlog.errors import DataLossError, HistoryPageError, LogNotFoundError, TrimmedError, UnknownPositionError
from dlog.ledger_list.window import ListWindow
from dlog.model import DEFAULT_NAMESPACE, ListedLedger, LogMetadata, LogState, MessageId
from ledger.model import NO_ENTRY

READ_PAST = "read past it with on_data_loss='gap' or `dlog read --on-data-loss gap`"
"""What can be done about every loss that a reader may pass."""

# ---- what the shell is asked to do


@dataclass(frozen=True, slots=True)
class OpenLedger:
    """Open without recovery, then `on_ledger`, `on_ledger_missing` or `on_ledger_damaged`."""

    ledger_id: int


@dataclass(frozen=True, slots=True)
class ReadEntries:
    """Fetch one or more entries from `first` on, none above `last`; `on_read` or `on_entry_missing`."""

    ledger_id: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class CountMessages:
    """Read how many messages the entry holds, then `on_count` or `on_entry_missing`; return none of them."""

    ledger_id: int
    entry_id: int


@dataclass(frozen=True, slots=True)
class WaitForEntries:
    """Wait until the ledger's LAC passes `beyond`, it is sealed, or the record changes; then `on_ledger`."""

    ledger_id: int
    beyond: int
    why: str


@dataclass(frozen=True, slots=True)
class WaitForLedger:
    """Wait until the record changes (`on_record_changed`): no listed ledger follows."""

    why: str


class GapReason(StrEnum):
    """Why messages cannot be returned."""

    TRIMMED = "trimmed"
    DATA_LOSS = "data loss"


@dataclass(frozen=True, slots=True)
class Gap:
    """The messages with ids from `first` up to, not including, `resume_at` cannot be returned."""

    first: MessageId
    resume_at: MessageId
    reason: GapReason


@dataclass(frozen=True, slots=True)
class ReportGap:
    """Return the gap to the user; reading continues after it."""

    gap: Gap


@dataclass(frozen=True, slots=True)
class Finish:
    """The end was reached: `until`, the last message of a sealed log, or the last one that can be below `until`."""


Step = (
    ReadRecord
    | OpenLedger
    | ReadEntries
    | CountMessages
    | WaitForEntries
    | WaitForLedger
    | ReportGap
    | Finish
)


class OnMissing(StrEnum):
    """What a reader does about messages that cannot be returned: raise, skip them silently, or return a Gap.

    Source: docs/log-semantics.md#rule-28.
    """

    FAIL = "fail"
    SKIP = "skip"
    GAP = "gap"


# ---- the machine


@dataclass(slots=True)
class _Ledger:
    """What is known of the ledger at the position."""

    ledger_id: int
    readable: int
    sealed: bool


class _Missing(StrEnum):
    """What was not found at the position; a fresh record shows what that means."""

    LEDGER = "ledger"
    METADATA = "metadata"
    """The ledger's metadata is there and damaged."""
    ENTRY = "entry"


class Tailing:
    """One reader's way through one log.

    Raises:
        TrimmedError, UnknownPositionError, DataLossError, LogNotFoundError: in `on_record`; the reader has ended then.
        HistoryPageError: in `next_step`; also then.
    """

    def __init__(
        self,
        log: str,
        *,
        position: MessageId,
        until: MessageId | None = None,
        from_earliest: bool = False,
        on_trimmed: OnMissing = OnMissing.FAIL,
        on_data_loss: OnMissing = OnMissing.FAIL,
        cursor: str | None = None,
    ) -> None:
        """`cursor`: the name of the one that `position` is of."""
        self._log = log
        self._position = position
        self._until = until
        self._from_earliest = from_earliest
        self._on_trimmed = on_trimmed
        self._on_data_loss = on_data_loss
        self._cursor = cursor
        self._record: LogMetadata | None = None
        self._window = ListWindow((), 0, position)
        """The part of the record's list from the position on."""
        self._ledger: _Ledger | None = None
        self._record_is_stale = True
        self._missing: _Missing | None = None
        self._trim_undecided = False
        """The position is below the trim id, and only its ledger can show whether a message was missed."""
        self._count_wanted = False
        """The position is below the trim id and inside an entry, whose number of messages decides, too."""
        self._lost_read_at: MessageId | None = None
        """The position at which the list was read last, if it ends before a page that cannot be read."""
        self._gaps: list[Gap] = []

    @property
    def position(self) -> MessageId:
        """The next id to fetch."""
        return self._position

    @property
    def at_tail(self) -> bool:
        """Whether everything known to be readable has been fetched and no listed ledger follows.

        False while the end of the ledger at the position is unknown: it is listed, and not opened yet.
        """
        if self._record is None or self._window.count_above(self._position.ledger_id):
            return False
        if self._ledger is not None:
            return self._position.entry_id > self._ledger.readable
        listed = self._window.find(self._position.ledger_id)
        return listed is None or (
            listed.seal is not None and self._position.entry_id > listed.seal.last_entry
        )

    @property
    def readable_entry(self) -> int:
        """Last entry known to be readable in the ledger at the position; -1 if none is."""
        return -1 if self._ledger is None else self._ledger.readable

    @property
    def readable_ahead(self) -> int:
        """Number of entries known to be readable from the position on, in its ledger and in sealed ones after it."""
        at, count, unseen = self._position, 0, self._position.ledger_id
        if self._ledger is not None:
            count = max(0, self._ledger.readable - at.entry_id + 1)
            if not self._ledger.sealed:
                return count
            unseen += 1
        for listed in self._window.from_(unseen):
            if listed.seal is None:
                break  # nothing after it is confirmed
            passed = at.entry_id if listed.ledger_id == at.ledger_id else 0
            count += max(0, listed.seal.last_entry + 1 - passed)
        return count

    def listed_after(self, ledger_id: int, fetched: Collection[int]) -> int:
        """Number of listed ledgers after this one, which is not after the position.

        `fetched`: ledgers before the position, of which the known part of the list may have none any more.
        """
        known = self._window.ledgers
        dropped = (one for one in fetched if not known or one < known[0].ledger_id)
        return self._window.count_above(ledger_id) + sum(one > ledger_id for one in dropped)

    @property
    def successor(self) -> int | None:
        """The listed ledger that will be read after the open one at the position, if nothing changes. None if none is,
        or if that is sealed.
        """
        if self._ledger is None or self._ledger.sealed or not self._window.covers(self._ledger.ledger_id + 1):
            return None
        following = self._window.at_or_after(self._ledger.ledger_id + 1)
        if following is None or following.seal is not None:
            return None
        is_wanted = self._until is None or self._until > MessageId(following.ledger_id, 0, 0)
        return following.ledger_id if is_wanted else None

    def sealed_ahead(self, above: int) -> Iterator[ListedLedger]:
        """Listed ledgers that will be read from their first entry on, if nothing changes: sealed, with entries.

        In order, those with an id above `above`, up to the first one that is not sealed or that is not wanted.
        """
        first = self._position.ledger_id + (self._position.entry_id > 0)
        for listed in self._window.from_(max(first, above + 1)):
            if listed.seal is None or (self._until is not None and listed.ledger_id >= self._until.ledger_id):
                return
            if not listed.known_empty:
                yield listed

    # ---- events

    def on_record(self, record: LogMetadata, window: ListWindow) -> None:
        """A linearizable read of the record, begun after the step that asked for it.

        `window`: the part of its list from the position on, where a trim has not moved it.
        """
        require_readable(self._log, record)
        self._record, self._window = record, window
        self._record_is_stale = False
        self._apply_trim(record)
        self._lost_read_at = None if window.lost is None else self._position
        if self._window.covers(self._position.ledger_id):
            self._apply_list(record)
        elif self._window.lost_from(self._position.ledger_id):
            if self._missing is not None:
                self._ledger = self._missing = None  # it is lost with the page
        else:
            self._record_is_stale = True  # the trim has moved the position after the known part of the list

    def on_newer_record(self, record: LogMetadata, window: ListWindow) -> None:
        """As `on_record`, of a read that no step asked for. While one asks for the record, only what that returns will
        do."""
        if not self._record_is_stale:
            self.on_record(record, window)

    def on_record_changed(self) -> None:
        """The record may have changed: read it before going on."""
        self._record_is_stale = True

    def on_ledger(self, ledger_id: int, *, readable: int, sealed: bool) -> None:
        """The ledger's LAC, or its last entry if it is sealed."""
        known = self._ledger
        if ledger_id != self._position.ledger_id or (known is not None and known.sealed):
            return
        if known is not None:
            # A late answer must not move the end of the readable part back.
            readable = readable if sealed else max(readable, known.readable)
        if self._trim_undecided or (sealed and not self._shows_what_follows(ledger_id)):
            self._record_is_stale = True
        self._ledger = _Ledger(ledger_id, readable, sealed)

    def _shows_what_follows(self, ledger_id: int) -> bool:
        """Whether the record lists a ledger after this one, or is younger than the seal of this one and lists none."""
        if not self._window.covers(ledger_id):
            return False
        listed = self._window.find(ledger_id)
        if listed is not None and listed.seal is not None:
            return True
        return self._window.covers(ledger_id + 1) and self._window.count_above(ledger_id) > 0

    def on_ledger_missing(self, ledger_id: int) -> None:
        """No such ledger in metadata. A fresh record shows whether it was trimmed, dropped or lost."""
        if ledger_id == self._position.ledger_id:
            self._missing = _Missing.LEDGER
            self._record_is_stale = True

    def on_ledger_damaged(self, ledger_id: int) -> None:
        """The ledger's metadata cannot be decoded. A fresh record shows whether it was trimmed, or is lost."""
        if ledger_id == self._position.ledger_id:
            self._missing = _Missing.METADATA
            self._record_is_stale = True

    def on_entry_missing(self, ledger_id: int) -> None:
        """The entry at the position is proved absent: its ledger is being deleted, or data is lost."""
        if ledger_id == self._position.ledger_id:
            self._missing = _Missing.ENTRY
            self._record_is_stale = True

    def on_read(self, ledger_id: int, through: int) -> None:
        """Entries up to `through` were fetched."""
        assert ledger_id == self._position.ledger_id and through >= self._position.entry_id
        self._position = MessageId(ledger_id, through + 1, 0)
        self._from_earliest = False

    def on_count(self, ledger_id: int, entry_id: int, count: int) -> None:
        """The number of messages in the entry at the position."""
        position = self._position
        if not self._count_wanted or (ledger_id, entry_id) != (position.ledger_id, position.entry_id):
            return
        assert self._record is not None, "a record asked for the count"
        if position.batch_index >= count:
            self._position = MessageId(ledger_id, entry_id + 1, 0)
        self._apply_trim(self._record, counted=True)

    # ---- decisions

    def next_step(self) -> Step:
        """What to do now. The same answer until something is reported."""
        if self._gaps:
            return ReportGap(self._gaps.pop(0))
        record = self._record
        if self._until is not None and self._position >= self._until:
            # A position in a ledger that the log never had is an error, not the end of an empty range.
            is_after = record is None and self._position.ledger_id > self._until.ledger_id
            return ReadRecord() if is_after else Finish()
        if record is None or self._record_is_stale:
            return ReadRecord()
        ledger = self._ledger
        if ledger is None:
            return self._enter_ledger(record)
        if self._count_wanted and self._position.entry_id <= ledger.readable:
            return CountMessages(ledger.ledger_id, self._position.entry_id)
        if self._position.entry_id <= ledger.readable:
            return ReadEntries(ledger.ledger_id, self._position.entry_id, self._last_wanted(ledger))
        if not ledger.sealed:
            return WaitForEntries(ledger.ledger_id, ledger.readable, self._why(record, ledger))
        return self._leave_ledger(record)

    def _enter_ledger(self, record: LogMetadata) -> Step:
        if (lost := self._window.lost_from(self._position.ledger_id)) is not None:
            return self._pass_page(lost, self._position)
        if not self._window.covers(self._position.ledger_id):
            return self._read_on()
        listed = self._window.at_or_after(self._position.ledger_id)
        if listed is None:
            return self._nothing_ahead(record)
        assert listed.ledger_id == self._position.ledger_id, "on_record moves to a listed ledger"
        if listed.seal is not None and listed.seal.last_entry < self._position.entry_id:
            return self._leave_ledger(record)
        return OpenLedger(listed.ledger_id)

    def _leave_ledger(self, record: LogMetadata) -> Step:
        """The ledger is sealed and read to its end, and the record shows what follows it."""
        following_id = self._position.ledger_id + 1
        if (lost := self._window.lost_from(following_id)) is not None:
            return self._pass_page(lost, MessageId(following_id, 0, 0))
        if not self._window.covers(following_id):
            return self._read_on()
        following = self._window.at_or_after(following_id)
        if following is None:
            return self._nothing_ahead(record)
        self._move_to(MessageId(following.ledger_id, 0, 0))
        return self.next_step()

    def _pass_page(self, lost: HistoryPageError, start: MessageId) -> Step:
        """What is listed next, at `start` or above, is in a page that cannot be read."""
        if self._lost_read_at != self._position:
            return self._read_on()  # it may have been restored, or trimmed
        first = max(start, MessageId(lost.first, 0, 0))
        resume_at = MessageId(lost.last + 1, 0, 0)
        if self._until is not None:
            resume_at = min(resume_at, self._until)
        if first < resume_at:
            if self._on_data_loss is OnMissing.FAIL:
                raise lost
            self._gaps.append(Gap(first, resume_at, GapReason.DATA_LOSS))
        self._move_to(max(first, resume_at))
        self._from_earliest = False
        self._record_is_stale = True
        return self.next_step()

    def _read_on(self) -> Step:
        """The known part of the list ends here: a fresh record comes with the next part."""
        self._record_is_stale = True
        return ReadRecord()

    def _nothing_ahead(self, record: LogMetadata) -> Step:
        if record.state is LogState.SEALED:
            return Finish()
        if self._until is not None and self._until <= _first_unused(record):
            return Finish()  # no ledger below it can follow
        if not record.ledgers:
            # It may have been written: a takeover drops ledgers that stayed empty.
            return WaitForLedger(f"log {self._log} is empty and has no writer")
        return WaitForLedger(
            f"log {self._log} has no writer: its last ledger {record.ledgers[-1].ledger_id} is sealed "
            "and read to the end"
        )

    def _last_wanted(self, ledger: _Ledger) -> int:
        until = self._until
        if until is None or until.ledger_id > ledger.ledger_id:
            return ledger.readable
        # `until` is exclusive; with a batch index it is inside its entry.
        last = until.entry_id if until.batch_index > 0 else until.entry_id - 1
        return min(ledger.readable, last)

    def _why(self, record: LogMetadata, ledger: _Ledger) -> str:
        following = self._window.next_from(ledger.ledger_id + 1)
        if following is None:
            return f"ledger {ledger.ledger_id} is read up to its last confirmed entry {ledger.readable}"
        return (
            f"ledger {ledger.ledger_id} is not sealed yet, so ledger {following} may not be read: "
            "its writer is rotating, or has died and the next one will seal it"
        )

    # ---- the list and the trim mark

    def _move_to(self, position: MessageId) -> None:
        self._position = position
        self._ledger = None
        self._missing = None

    def _apply_trim(self, record: LogMetadata, *, counted: bool = False) -> None:
        """Move after what was trimmed; report it if it includes a message at or after the position."""
        self._trim_undecided = self._count_wanted = False
        requested, earliest = self._position, self._window.earliest
        if requested >= record.trim_before:
            return
        if not self._from_earliest:
            if not counted and self._inside_entry():
                self._count_wanted = True
                return
            match self._missed(record):
                case ListedLedger() as unknown:
                    self._trim_undecided = True
                    if unknown.ledger_id != requested.ledger_id:
                        self._move_to(MessageId(unknown.ledger_id, 0, 0))
                    return
                case None:
                    self._move_to(MessageId(self._window.ledgers[-1].ledger_id, 0, 0))
                    self._record_is_stale = True
                    return
                case True:
                    self._report_trim(self._position, earliest)
        if earliest.ledger_id == requested.ledger_id:
            self._position = earliest  # the ledger is kept, and what is known of it stays true
        else:
            self._move_to(earliest)

    def _inside_entry(self) -> bool:
        """Whether the position is after the first message of an existing entry, in a listed ledger."""
        if self._position.batch_index == 0 or not self._window.covers(self._position.ledger_id):
            return False
        listed = self._window.find(self._position.ledger_id)
        if listed is None:
            return False
        if listed.seal is not None:
            last = listed.seal.last_entry
        else:
            last = self.readable_entry if self._ledger is not None else NO_ENTRY
        return last >= self._position.entry_id

    def _missed(self, record: LogMetadata) -> bool | ListedLedger | None:
        """Whether a message at or after the position was trimmed, or the ledger that must be opened to decide it.

        None: none in the known part of the list.
        """
        if self._position < record.trimmed_end:
            return True
        for listed in self._window.ledgers:
            first = max(self._position, MessageId(listed.ledger_id, 0, 0))
            if listed.ledger_id < self._position.ledger_id or first >= record.trim_before:
                continue
            known = self._ledger if self._ledger and self._ledger.ledger_id == listed.ledger_id else None
            if listed.seal is not None:
                last, is_last = listed.seal.last_entry, True
            else:
                last, is_last = (known.readable, known.sealed) if known else (NO_ENTRY, False)
            if last >= first.entry_id:
                return True
            if not is_last:
                return listed
        if self._window.covers(record.trim_before.ledger_id):
            return False
        if (lost := self._window.lost) is None:
            return None
        return MessageId(lost.first, 0, 0) < record.trim_before  # what the page has below that is not known

    def _report_trim(self, requested: MessageId, earliest: MessageId) -> None:
        if self._on_trimmed is OnMissing.FAIL:
            raise TrimmedError(
                f"message {requested} of log {self._log} was trimmed, the earliest is {earliest}: "
                f"{self._start('there', earliest)}, or in a program set on_trimmed to 'skip' or 'gap'",
                requested=requested,
                earliest=earliest,
            )
        if self._on_trimmed is OnMissing.GAP:
            self._gaps.append(Gap(requested, earliest, GapReason.TRIMMED))

    def _start_at(self, position: MessageId) -> str:
        return self._start(f"{'at' if self._cursor is None else 'to'} {position}", position)

    def _start(self, where: str, position: MessageId | str) -> str:
        """How the reader begins at the position, which is `where`. With a cursor it does so nowhere else."""
        if self._cursor is None:
            return f"start {where}"
        namespace, _, name = self._log.rpartition("/")
        option = "" if namespace in ("", DEFAULT_NAMESPACE) else f" --namespace {namespace}"
        command = f"dlog cursor set {name} {self._cursor} {position}{option}"
        return f"move the cursor {where} with set_cursor or `{command}`"

    def _apply_list(self, record: LogMetadata) -> None:
        ledger_id = self._position.ledger_id
        if ledger_id > max(record.last_ledger_id, 0) and not is_after_all(self._position, record):
            raise self._unknown_position(record)
        listed = self._window.at_or_after(ledger_id)
        if listed is None:
            self._ledger = self._missing = None
        elif listed.ledger_id != ledger_id:
            # Not listed and not below trim_before: dropped because it was empty, or never listed. Nothing
            # else leaves the list without raising trim_before.
            self._move_to(MessageId(listed.ledger_id, 0, 0))
        elif self._missing is not None:
            self._lose(listed, self._missing)
            # After what is lost the trim position must be checked again, if it was not decided.
            self._record_is_stale = self._count_wanted

    def _unknown_position(self, record: LogMetadata) -> UnknownPositionError:
        last = record.ledgers[-1].ledger_id if record.ledgers else None
        why = (
            f"is no id of log {self._log}, which is empty"
            if last is None
            else f"is above the last ledger of log {self._log}, which is {last}"
        )
        if self._cursor is not None:
            way_out = self._start("to earliest", "earliest")
        else:
            way_out = f"start{'' if last is None else ' at an id of this log,'} at 'earliest' or at 'latest'"
        return UnknownPositionError(
            f"position {self._position} {why}: {way_out}",
            requested=self._position,
            last=last,
        )

    def _lose(self, listed: ListedLedger, missing: _Missing) -> None:
        """A fresh record still lists the ledger of which something was not found."""
        self._missing = None
        if listed.seal is not None and listed.seal.last_entry < self._position.entry_id:
            return  # nothing of it is wanted any more; `_enter_ledger` passes it by
        following = self._window.next_from(listed.ledger_id + 1)
        if missing is _Missing.ENTRY:
            resume_at = MessageId(listed.ledger_id, self._position.entry_id + 1, 0)
        else:
            resume_at = MessageId(listed.ledger_id + 1 if following is None else following, 0, 0)
        if missing is not _Missing.ENTRY and listed.seal is None and following is None:
            raise self._endless_loss(listed.ledger_id, missing)
        gap = Gap(self._position, resume_at, GapReason.DATA_LOSS)
        if self._on_data_loss is OnMissing.FAIL:
            raise self._data_loss(gap, listed, missing)
        self._gaps.append(gap)
        self._from_earliest = False
        if missing is _Missing.ENTRY:
            self._position = resume_at
        elif following is not None:
            self._move_to(resume_at)
        else:
            # Stay: an id above the last ledger would be an unknown position at the next record.
            self._ledger = _Ledger(listed.ledger_id, NO_ENTRY, sealed=True)

    def _endless_loss(self, ledger_id: int, missing: _Missing) -> DataLossError:
        """No reader passes it: up to which id its messages are missing is not known."""
        last = f"ledger {ledger_id}, the last of log {self._log},"
        is_damaged = missing is _Missing.METADATA
        what = f"the metadata of {last} is damaged" if is_damaged else f"{last} does not exist"
        return DataLossError(
            f"{what}, and where that ledger ends is not known: restore the metadata store from a backup, or give the "
            f"ledger up with open_writer(..., given_up=[{ledger_id}])",
            log=self._log,
            first=self._position,
            ledger_id=ledger_id,
        )

    def _data_loss(self, gap: Gap, listed: ListedLedger, missing: _Missing) -> DataLossError:
        match missing:
            case _Missing.METADATA:
                why = f"cannot be read because the metadata of ledger {listed.ledger_id} is damaged"
            case _Missing.LEDGER:
                why = f"cannot be read because ledger {listed.ledger_id} does not exist"
            case _Missing.ENTRY:
                why = "are missing on all bookies"
        restore = "them" if missing is _Missing.ENTRY else "the metadata store from a backup"
        return DataLossError(
            f"messages of log {self._log} from {gap.first} to before {gap.resume_at} {why}: restore {restore}, "
            f"{self._start_at(gap.resume_at)}, or {READ_PAST}",
            log=self._log,
            first=gap.first,
            resume_at=gap.resume_at,
            ledger_id=listed.ledger_id,
        )


def _first_unused(record: LogMetadata) -> MessageId:
    """The lowest id that a ledger listed from now on can have: a ledger's id is above all that were ever listed."""
    return MessageId(record.last_ledger_id + 1, 0, 0)


def require_readable(log: str, record: LogMetadata) -> None:
    """LogNotFoundError if the log is being deleted: its list is empty, and must not look like that of an empty log."""
    if record.state is LogState.DELETING:
        raise LogNotFoundError(f"log {log} is being deleted and can no longer be read", log=log)


def is_after_all(position: MessageId, record: LogMetadata) -> bool:
    """Whether it is after every message of the log and before all that follow, though no ledger has its id.

    A gap up to the end of the log ends there. Above a ledger that is not sealed it would be after messages to come.
    """
    return position == _first_unused(record) and all(listed.seal is not None for listed in record.ledgers)
