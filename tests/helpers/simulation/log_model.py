"""A log in a few lines, which makes right histories: what clients of a correct log may see, in random order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from math import inf
from random import Random

from dlog.model import EARLIEST_ID, MessageId
from dlog.testing.checks.history import (
    Append,
    History,
    Observation,
    Outcome,
    Resolved,
    Takeover,
    Trim,
    WholeRead,
)


@dataclass(slots=True, eq=False)
class _Sent:
    """One message of a handle and what its caller knows of it."""

    writer: str
    number: int
    payload: bytes
    invoked: float
    message_id: MessageId
    batch: int | None
    returned: float = inf
    outcome: Outcome = Outcome.INDETERMINATE
    ended: bool = False

    def end(self, at: float, outcome: Outcome) -> None:
        self.returned, self.outcome, self.ended = at, outcome, True

    def append(self) -> Append:
        known = self.ended and self.outcome in (Outcome.ACKED, Outcome.INDETERMINATE)
        place = self.message_id if known else None
        return Append(
            self.writer,
            self.number,
            self.payload,
            self.invoked,
            self.returned,
            self.outcome,
            place,
            self.batch,
        )


class LogModel:
    """`history()` after any number of steps. Time is a counter: no two events are simultaneous."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._strict = random.random() < 0.7
        self._now = 0.0
        self._sent: list[_Sent] = []
        self._log: list[_Sent] = []
        self._in_flight: list[_Sent] = []
        self._promised = 0
        """Every reader opened now sees as many messages."""
        self._takeovers: list[Takeover] = []
        self._numbers: dict[str, int] = {}
        self._ledger, self._entry = 0, 0
        self._readers: dict[str, list[Observation]] = {}
        self._next: dict[str, int] = {}
        """Of each reader that goes on: its position in the log."""
        self._whole_reads: list[WholeRead] = []
        self._trims: list[Trim] = []
        self._trimmed = EARLIEST_ID
        self._resolutions: list[Resolved] = []
        self.take_over()

    def step(self) -> None:
        """Anything that a client may do, or that may happen to what it did."""
        steps: list[Callable[[], None]] = [
            *(self.append, self.append, self.append_many, self.commit, self.commit, self.ack, self.ack),
            *(self.cancel, self.reject, self.rotate, self.take_over, self.append_when_deposed),
            *(self.read, self.read, self.read_whole, self.trim, self.resolve),
        ]
        self._random.choice(steps)()

    def _tick(self) -> float:
        self._now += 1.0
        return self._now

    # ---- writers

    @property
    def _writer(self) -> str:
        return self._takeovers[-1].writer

    def take_over(self) -> None:
        """What is in flight is decided: some of it survives, never one without those before it."""
        asked = self._tick()
        for sent in self._survivors():
            self._log.append(sent)
        undecided, self._in_flight = self._in_flight, []
        self._promised = len(self._log)
        epoch = len(self._takeovers) + 1
        self._takeovers.append(Takeover(f"writer.{epoch}", self._tick(), epoch, asked))
        self._ledger, self._entry = self._ledger + 1, 0
        unacknowledged = [sent for sent in self._log if not sent.ended] + undecided
        for _, entry in groupby(unacknowledged, key=lambda sent: sent.message_id[:2]):
            if self._random.random() < 0.7:
                at = self._tick()
                for sent in entry:
                    sent.end(at, Outcome.INDETERMINATE)

    def _survivors(self) -> list[_Sent]:
        found = []
        while self._in_flight and self._random.random() < 0.6:
            found += self._first_entry()
        return found

    def _first_entry(self) -> list[_Sent]:
        """Taken out of what is in flight."""
        first = self._in_flight[0].message_id[:2]
        entry = [sent for sent in self._in_flight if sent.message_id[:2] == first]
        del self._in_flight[: len(entry)]
        return entry

    def append(self) -> None:
        self._in_flight += self._send(1, batched=False)

    def append_many(self) -> None:
        self._in_flight += self._send(self._random.randint(1, 4), batched=True)

    def _send(self, count: int, *, batched: bool) -> list[_Sent]:
        first, at = self._numbers.get(self._writer, 0), self._tick()
        self._numbers[self._writer] = first + count
        self._entry += 1
        found = [
            _Sent(
                self._writer,
                first + index,
                b"%s:%d" % (self._writer.encode(), first + index),
                at,
                MessageId(self._ledger, self._entry - 1, index),
                first if batched else None,
            )
            for index in range(count)
        ]
        self._sent += found
        return found

    def commit(self) -> None:
        if self._in_flight:
            self._log += self._first_entry()

    def ack(self) -> None:
        """The first of the handle that is committed and has no outcome."""
        waiting = [sent for sent in self._log if sent.writer == self._writer and not sent.ended]
        for sent in [each for each in waiting if each.message_id[:2] == waiting[0].message_id[:2]]:
            sent.end(self._now + 1, Outcome.ACKED)
            confirmed = [each for each in self._log if self._confirmed(each, sent)]
            self._promised = max([self._promised, *(self._log.index(each) + 1 for each in confirmed)])
        self._tick()

    def _confirmed(self, sent: _Sent, by: _Sent) -> bool:
        """Whether every reader sees `sent` from the acknowledgement of `by` on."""
        return sent is by if self._strict else sent.returned < by.invoked and sent.outcome is Outcome.ACKED

    def cancel(self) -> None:
        singles = [sent for sent in self._in_flight if sent.batch is None and not sent.ended]
        if singles:
            self._random.choice(singles).end(self._tick(), Outcome.CANCELLED)

    def reject(self) -> None:
        for sent in self._send(1, batched=False):
            sent.end(self._tick(), Outcome.REJECTED)

    def rotate(self) -> None:
        if not self._in_flight:
            self._ledger, self._entry = self._ledger + 1, 0

    def append_when_deposed(self) -> None:
        """It gets nowhere: no bookie takes an add to a fenced ledger."""
        writer = self._random.choice(self._takeovers).writer
        if writer != self._writer:
            number, at = self._numbers.get(writer, 0), self._tick()
            self._numbers[writer] = number + 1
            place = MessageId(self._ledger, 1000 + len(self._sent), 0)  # no one's
            sent = _Sent(writer, number, b"%s:%d" % (writer.encode(), number), at, place, None)
            self._sent.append(sent)
            if self._random.random() < 0.5:
                sent.end(self._tick(), self._random.choice([Outcome.REJECTED, Outcome.CANCELLED]))

    # ---- readers

    def _first_readable(self) -> int:
        return sum(sent.message_id < self._trimmed for sent in self._log)

    def _messages(self, first: int, last: int) -> list[tuple[MessageId, bytes]]:
        return [(sent.message_id, sent.payload) for sent in self._log[first:last]]

    def read(self) -> None:
        """A reader goes on, or a new one begins anywhere."""
        first = self._first_readable()
        going_on = [name for name, place in self._next.items() if place >= first]
        if going_on and self._random.random() < 0.7:
            name = self._random.choice(going_on)
        else:
            name = f"reader.{len(self._next)}"
            self._next[name] = self._random.randint(first, len(self._log))
            self._readers[name] = []
        for message_id, payload in self._messages(self._next[name], len(self._log))[
            : self._random.randint(1, 5)
        ]:
            self._readers[name].append(Observation(message_id, payload, self._tick()))
            self._next[name] += 1

    def read_whole(self) -> None:
        """To the tail as one reader finds it, which may be further than another one's."""
        opened = self._tick()
        first = self._first_readable()
        start = self._random.choice([EARLIEST_ID, *(sent.message_id for sent in self._log[first:])])
        end = self._random.randint(self._promised, len(self._log))
        found = [each for each in self._messages(first, end) if each[0] >= start]
        name = f"whole.{len(self._whole_reads)}"
        self._readers[name] = [Observation(*each, self._tick()) for each in found]
        ids = frozenset(message_id for message_id, _ in found)
        self._whole_reads.append(WholeRead(name, opened, ids, start, self._tick()))

    # ---- administrators

    def trim(self) -> None:
        """To what a reader has seen. The answer may be lost, and the trim with it."""
        seen = [each.message_id for observations in self._readers.values() for each in observations]
        if seen:
            before = self._random.choice(seen)
            shadowed = max((trim.before for trim in self._trims), default=EARLIEST_ID)
            log = self._messages(0, len(self._log))
            shadow = tuple(each for each in log if shadowed <= each[0] < before)
            invoked, answered = self._tick(), self._random.random() < 0.5
            if answered or self._random.random() < 0.5:
                self._trimmed = max(self._trimmed, before)
            self._trims.append(Trim(before, invoked, shadow, self._tick() if answered else inf))

    def resolve(self) -> None:
        known = [
            sent
            for sent in self._sent
            if sent.ended and sent.outcome is Outcome.INDETERMINATE and sent.writer != self._writer
        ]
        if known:
            sent, invoked = self._random.choice(known), self._tick()
            answer = "committed" if sent in self._log else "absent"
            if sent.message_id < self._trimmed:
                answer = "trimmed"
            resolved = Resolved(sent.payload, sent.message_id, answer, invoked, self._tick())
            self._resolutions.append(resolved)

    # ---- the end

    def history(self) -> History:
        return History(
            [sent.append() for sent in self._sent],
            list(self._takeovers),
            {name: list(found) for name, found in self._readers.items()},
            self._messages(self._first_readable(), len(self._log)),
            whole_reads=list(self._whole_reads),
            trimmed_before=self._trimmed,
            trims=list(self._trims),
            resolutions=list(self._resolutions),
            strict=self._strict,
        )


def right_history(random: Random, steps: int) -> History:
    model = LogModel(random)
    for _ in range(steps):
        model.step()
    return model.history()
