"""Writes a history down while it happens, for programs that share the recorder's interpreter."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable
from dataclasses import replace

from dlog.model import EARLIEST_ID, NO_MESSAGE, Message, MessageId
from dlog.testing.checks.history import (
    Append,
    History,
    Observation,
    Outcome,
    ReadFrom,
    ReportedGap,
    Resolved,
    Takeover,
    Trim,
    WholeRead,
    content_of,
)

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
        self._invoked: dict[_Key, tuple[bytes, float, int | None]] = {}
        self._ended: dict[_Key, tuple[float, Outcome, MessageId | None]] = {}
        self._numbers: dict[str, int] = {}
        self._asked: dict[str, float] = {}
        self._takeovers: list[tuple[int, Takeover]] = []
        self._readers: dict[str, list[Observation]] = {}
        self._skipping: set[str] = set()
        self._gaps: dict[str, list[ReportedGap]] = {}
        self.whole_reads: list[WholeRead] = []
        self._resolutions: list[Resolved] = []
        self._trims: list[Trim] = []
        self.starts: dict[str, ReadFrom] = {}
        """Where each reader that was opened was asked to begin."""
        self.expected: dict[bytes, MessageId] = {}
        """Of conditional appends, by payload: the id that the log's last message had to have."""
        self.last_acked = NO_MESSAGE
        """The id that was acknowledged last, by any writer."""
        self._payloads = 0
        self._waiting: list[asyncio.Future[MessageId]] = []
        self.on_acked: Callable[[MessageId], None] = lambda _: None
        """Called when an append has been acknowledged."""
        self._highest_read = NO_MESSAGE
        self.on_first_read: Callable[[MessageId], None] = lambda _: None
        """Called when a reader returns a message above all that any reader had returned."""
        self.acknowledged: list[tuple[bytes, MessageId]] = []
        """What was appended, and its id, in the order of the acknowledgements."""
        self.in_doubt: list[tuple[bytes, MessageId]] = []
        """Of appends that ended indeterminate: what, and the only id that it can have."""
        self.seen: list[MessageId] = []
        """Of every message that any reader returned."""
        self.times_us: dict[MessageId, int] = {}
        """The append times of messages that any reader returned."""

    def now(self) -> float:
        """By the clock of the history."""
        return self._now()

    def new_payload(self) -> int:
        """A number that makes a payload unlike all others."""
        self._payloads += 1
        return self._payloads

    def asked_for(self, writer: str) -> None:
        """The handle is about to be opened."""
        self._asked[writer] = self._now()

    def takeover(self, writer: str, epoch: int) -> None:
        """The handle is open; `asked_for` has noted when it was asked for."""
        assert all(each.writer != writer for _, each in self._takeovers), f"{writer} names two handles"
        asked = self._asked.pop(writer, -math.inf)
        self._takeovers.append((epoch, Takeover(writer, self._now(), epoch, asked)))
        self._log_event("has the log", writer, f"epoch {epoch}")

    @property
    def epoch(self) -> int:
        """The highest of any handle that was opened."""
        return max((epoch for epoch, _ in self._takeovers), default=0)

    def invoke(self, writer: str, payload: bytes, batch: int | None = None) -> int:
        """The handle is about to be given this payload; returns the number of this append."""
        number = self._numbers.get(writer, 0)
        self._numbers[writer] = number + 1
        self._invoked[writer, number] = (payload, self._now(), batch)
        return number

    def invoke_many(self, writer: str, payloads: Iterable[bytes]) -> list[int]:
        """The handle is about to be given these payloads in one `append_many`; returns their numbers."""
        first = self._numbers.get(writer, 0)
        return [self.invoke(writer, payload, first) for payload in payloads]

    def end(self, writer: str, number: int, outcome: Outcome, message_id: MessageId | None = None) -> None:
        self._ended[writer, number] = (self._now(), outcome, message_id)
        self._log_event(
            f"append {outcome.value}", writer, f"{number}" + (f" {message_id}" if message_id else "")
        )
        if outcome is Outcome.ACKED:
            assert message_id is not None
            self.acknowledged.append((self._invoked[writer, number][0], message_id))
            self.last_acked = message_id
            self._report_acked(message_id)
        elif outcome is Outcome.INDETERMINATE and message_id is not None:
            self.in_doubt.append((self._invoked[writer, number][0], message_id))

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
        if message_id > self._highest_read:
            self._highest_read = message_id
            self.on_first_read(message_id)

    def returned_message(self, reader: str, message: Message) -> None:
        """The same, with the message's key and headers, and its append time."""
        self.times_us[message.id] = message.append_time_us
        self.returned(reader, message.id, content_of(message.payload, message.key, message.headers))

    def has_returned(self, reader: str) -> bool:
        """Whether the reader has returned any message."""
        return reader in self._readers

    def may_skip(self, reader: str) -> None:
        """The reader was opened to skip what is trimmed."""
        self._skipping.add(reader)

    def must_report(self, reader: str) -> None:
        """The reader was opened to report what it leaves out."""
        self._gaps[reader] = []

    def reported(self, reader: str, first: MessageId, resume_at: MessageId) -> None:
        """The reader said that it leaves out the messages from `first` up to `resume_at`."""
        self._gaps[reader].append(ReportedGap(first, resume_at, self._now()))

    # ---- administrators

    def resolved(self, payload: bytes, message_id: MessageId, answer: str, invoked: float) -> None:
        """`resolve` has answered."""
        self._resolutions.append(Resolved(payload, message_id, answer, invoked, self._now()))
        self._log_event("resolved", str(message_id), answer)

    @property
    def shadowed(self) -> MessageId:
        """The shadows of the log are complete up to here; the next one begins here."""
        return max((trim.before for trim in self._trims), default=EARLIEST_ID)

    def trim(self, before: MessageId, shadow: Iterable[tuple[MessageId, bytes]]) -> int:
        """`shrink` is about to be called, and the log from `shadowed` to `before` was read; returns its number."""
        self._trims.append(Trim(before, self._now(), tuple(shadow)))
        return len(self._trims) - 1

    def trimmed(self, number: int) -> None:
        """The call has succeeded."""
        self._trims[number] = replace(self._trims[number], returned=self._now())

    def history(self) -> History:
        """All of it, still without the last read."""
        history = History(
            readers=self._readers,
            whole_reads=self.whole_reads,
            trims=self._trims,
            resolutions=self._resolutions,
            skipping=self._skipping,
            gaps=self._gaps,
            starts=self.starts,
            expected=self.expected,
            times_us=self.times_us,
        )
        history.takeovers = [takeover for _, takeover in sorted(self._takeovers, key=lambda each: each[0])]
        for (writer, number), (payload, invoked, batch) in self._invoked.items():
            end = self._ended.get((writer, number), (math.inf, Outcome.INDETERMINATE, None))
            history.appends.append(Append(writer, number, payload, invoked, *end, batch))
        return history
