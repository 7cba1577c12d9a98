"""What the range of a reader names, as ids of one incarnation of the log.

Invariant: the tail is determined once, so start and end mean the same one (docs/log-semantics.md#rule-29).
"""

from __future__ import annotations

from dlog.core.tailing import is_after_all, require_readable
from dlog.errors import UnknownPositionError
from dlog.ledger_list.ledger_list import LedgerList
from dlog.metadata.fresh_record import with_readable_record
from dlog.metadata.log_ref import LogRef
from dlog.metadata.store import LogMetadataStore
from dlog.model import EARLIEST_ID, LogMetadata, MessageId
from dlog.read.range import AtTime, Place, Position, ReadRange
from dlog.read.tail import is_beyond, start_of_last, tail_of
from dlog.read.time_seek import first_at_or_after
from ledger.client import LedgerClient


class Places:
    """Finds positions. Each method raises what determining the tail raises (`tail_of`) if it needs the tail."""

    def __init__(
        self,
        logs: LogMetadataStore,
        ref: LogRef,
        ledgers: LedgerClient,
        password: bytes = b"",
        *,
        accept_loss: bool = False,
    ) -> None:
        """`accept_loss`: a range may begin or end at a ledger that is lost, of which the reader reports the gap."""
        self._logs = logs
        self._ref = ref
        self._ledgers = ledgers
        self._password = password
        self._accept_loss = accept_loss
        self._tail: MessageId | None = None
        self.confirmed = EARLIEST_ID
        """What is below it is readable, whatever the bookies asked next know of it: the tail, or what a time found."""

    async def record(self) -> LogMetadata:
        """The log's record, read linearizably.

        Raises:
            LogNotFoundError: the log was deleted, or is being deleted.
        """
        record = (await self._logs.read(self._ref)).value
        require_readable(str(self._ref), record)
        return record

    async def start(self, wanted: ReadRange) -> MessageId:
        """Where the range begins; `EARLIEST_ID` for the earliest message."""
        if wanted.last is None:
            return await self.find(wanted.start)
        return await start_of_last(
            wanted.last,
            await self.tail(),
            self._logs,
            self._ref,
            self._ledgers,
            self._password,
            accept_loss=self._accept_loss,
        )

    async def begin(self, wanted: ReadRange) -> MessageId:
        """The same as a position that can be kept: the earliest message is the one that is earliest now.

        Raises:
            UnknownPositionError: it is above the tail.
        """
        start = await self.start(wanted)
        if start == EARLIEST_ID:
            return await with_readable_record(
                self._logs, self._ref, self._ledgers.environment, _earliest, "the earliest message"
            )
        await self.require_not_above_tail(start)
        return start

    async def require_not_above_tail(self, position: MessageId) -> None:
        """UnknownPositionError if it is above the tail, and not the position after a log of sealed ledgers."""
        if await self.is_above_tail(position) and not is_after_all(position, await self.record()):
            tail = await self.tail()
            why = (
                f"is no id of log {self._ref.name}, which is empty: use 'earliest' or 'latest'"
                if tail == EARLIEST_ID
                else f"is above the tail of log {self._ref.name}, which is {tail}: use an id up to that, or 'latest'"
            )
            raise UnknownPositionError(
                f"position {position} {why}",
                requested=position,
                last=tail.ledger_id,
            )

    async def is_above_tail(self, position: MessageId) -> bool:
        """Whether it is above the tail. Bookies are asked only if the record does not show it."""
        record = await self.record()
        end = next((listed for listed in record.ledgers if listed.seal is None), record.tail)
        if end is None:
            return position > EARLIEST_ID  # which is in no ledger of this log
        if position.ledger_id < end.ledger_id:
            return False
        return await is_beyond(position, await self.tail(), self._ledgers, self._password)

    async def find(self, where: Position, *, is_end: bool = False) -> MessageId:
        """`is_end`: it is where a range ends."""
        match where:
            case MessageId():
                return where
            case AtTime(time_us):
                found = await first_at_or_after(
                    time_us,
                    self._logs,
                    self._ref,
                    self._ledgers,
                    self._password,
                    accept_loss=self._accept_loss,
                    is_end=is_end,
                )
                self.confirmed = max(self.confirmed, found)
                return found
            case Place():
                return EARLIEST_ID if where is Place.EARLIEST else await self.tail()

    async def tail(self) -> MessageId:
        """The tail, as of the first call."""
        if self._tail is None:
            self._tail = await tail_of(self._logs, self._ref, self._ledgers, self._password)
            self.confirmed = max(self.confirmed, self._tail)
        return self._tail


async def _earliest(ledgers: LedgerList) -> MessageId:
    return (await ledgers.window(0)).earliest
