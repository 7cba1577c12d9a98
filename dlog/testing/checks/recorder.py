"""Writes a history down while it happens, for programs that share the recorder's interpreter."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dlog.model import NO_MESSAGE, MessageId
from dlog.testing.checks.history import Append, History, Observation, Outcome, Takeover, WholeRead

_Key = tuple[str, int]
LogEvent = Callable[[str, str, str], None]
"""For a timeline: what happened, to whom, and more of it."""


def _ignore(kind: str, node: str, text: str) -> None:
    """Nobody wants to know."""


class Recorder:
    """Each client reports its own events. An append without a reported end stayed in flight."""

    def __init__(
        self, now: Callable[[], float], *, log_event: LogEvent = _ignore, log_read: LogEvent = _ignore
    ) -> None:
        self._now = now
        self._log_event = log_event
        self._log_read = log_read
        self._invoked: dict[_Key, tuple[bytes, float]] = {}
        self._ended: dict[_Key, tuple[float, Outcome, MessageId | None]] = {}
        self._numbers: dict[str, int] = {}
        self._takeovers: list[tuple[int, Takeover]] = []
        self._readers: dict[str, list[Observation]] = {}
        self.whole_reads: list[WholeRead] = []
        self.resolutions: list[tuple[bytes, MessageId, str]] = []
        self._payloads = 0
        self._waiting: list[asyncio.Future[MessageId]] = []
        self.on_acked: Callable[[MessageId], None] = lambda _: None
        """Called when an append has been acknowledged."""
        self.acked = 0
        self.seen: list[MessageId] = []
        """Of every message that any reader returned."""
        self.highest = NO_MESSAGE

    def now(self) -> float:
        """By the clock of the history."""
        return self._now()

    def new_payload(self) -> int:
        """A number that makes a payload unlike all others."""
        self._payloads += 1
        return self._payloads

    def takeover(self, writer: str, epoch: int) -> None:
        """The handle is open."""
        self._takeovers.append((epoch, Takeover(writer, self._now())))
        self._log_event("has the log", writer, f"epoch {epoch}")

    @property
    def epoch(self) -> int:
        """The highest of any handle that was opened."""
        return max((epoch for epoch, _ in self._takeovers), default=0)

    def invoke(self, writer: str, payload: bytes) -> int:
        """The handle is about to be given this payload; returns the number of this append."""
        number = self._numbers.get(writer, 0)
        self._numbers[writer] = number + 1
        self._invoked[writer, number] = (payload, self._now())
        return number

    def end(self, writer: str, number: int, outcome: Outcome, message_id: MessageId | None = None) -> None:
        self._ended[writer, number] = (self._now(), outcome, message_id)
        self._log_event(
            f"append {outcome.value}", writer, f"{number}" + (f" {message_id}" if message_id else "")
        )
        if outcome is Outcome.ACKED:
            assert message_id is not None
            self.acked += 1
            self._report_acked(message_id)

    async def next_acked(self) -> MessageId:
        """The id of the next append that is acknowledged, as soon as its writer knows it."""
        waiter: asyncio.Future[MessageId] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        return await waiter

    def _report_acked(self, message_id: MessageId) -> None:
        self.on_acked(message_id)
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(message_id)

    def returned(self, reader: str, message_id: MessageId, payload: bytes) -> None:
        """The reader returned this message."""
        self._readers.setdefault(reader, []).append(Observation(message_id, payload, self._now()))
        self._log_read("reads", reader, str(message_id))
        self.seen.append(message_id)
        self.highest = max(self.highest, message_id)

    def history(self) -> History:
        """All of it, still without the last read."""
        history = History(readers=self._readers, whole_reads=self.whole_reads, resolutions=self.resolutions)
        history.takeovers = [takeover for _, takeover in sorted(self._takeovers, key=lambda each: each[0])]
        for (writer, number), (payload, invoked) in self._invoked.items():
            end = self._ended.get((writer, number), (float("inf"), Outcome.INDETERMINATE, None))
            history.appends.append(Append(writer, number, payload, invoked, *end))
        return history
