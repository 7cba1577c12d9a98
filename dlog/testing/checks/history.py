"""What happened to a log, as its users saw it: appends with their outcomes, and what readers returned.

Times are any one clock that rises; payloads are unique, so that messages are distinguishable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import inf

from dlog.model import EARLIEST_ID, MessageId


def content_of(payload: bytes | None, key: bytes | None = None, headers: Sequence[object] = ()) -> bytes:
    """All of a message as one value, which a history calls its payload: of a message without key and headers, its own.

    Two different messages have different contents as long as payloads do not begin with `key=`.
    """
    if key is None and not headers and payload is not None:
        return payload
    return b"key=%r headers=%r payload=%r" % (key, tuple(headers), payload)


class Outcome(Enum):
    ACKED = "acked"
    REJECTED = "rejected"
    """Certainly absent."""
    INDETERMINATE = "indeterminate"
    """At its would-be id or nowhere."""
    CANCELLED = "cancelled"
    """Its caller did not wait for the outcome: there once or not at all."""


@dataclass(frozen=True, slots=True)
class Append:
    """One message of one writer handle; `number` counts the handle's messages in the order of the calls."""

    writer: str
    number: int
    payload: bytes
    invoked: float
    returned: float
    outcome: Outcome
    message_id: MessageId | None = None
    batch: int | None = None
    """The number of the first message of the same `append_many`; None for a single append."""


@dataclass(frozen=True, slots=True)
class Takeover:
    """The handle `writer` was opened; nothing that an earlier one is given after `returned` may be committed."""

    writer: str
    returned: float
    epoch: int | None = None
    invoked: float = -inf
    """When the handle was asked for."""


@dataclass(frozen=True, slots=True)
class Observation:
    """A reader returned a message."""

    message_id: MessageId
    payload: bytes
    at: float


@dataclass(frozen=True, slots=True)
class WholeRead:
    """A reader opened at `opened` read everything from `start` to the tail as it was then."""

    reader: str
    opened: float
    message_ids: frozenset[MessageId]
    start: MessageId = EARLIEST_ID
    ended: float = inf


@dataclass(frozen=True, slots=True)
class Trim:
    """`shrink` was called, whatever became of the call.

    A reader had returned `before`, so everything below it is decided: the log never changes there any more.
    """

    before: MessageId
    invoked: float
    shadow: tuple[tuple[MessageId, bytes], ...]
    """The log below `before`, read in advance, from the highest `before` of the trims that were asked for earlier."""
    returned: float = inf
    """When the call succeeded, if it did."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """`resolve` was asked for the outcome of an append that had ended indeterminate."""

    payload: bytes
    message_id: MessageId
    answer: str
    invoked: float = -inf
    returned: float = inf


@dataclass(frozen=True, slots=True)
class ReadFrom:
    """Where a reader was asked to begin, and where it says that this is."""

    place: str
    """`earliest` or `latest`; `id` or `after` `message_id`; the `last` `count` messages; a `time`."""
    message_id: MessageId
    count: int
    asked: float
    """When the client was asked to open the reader."""
    opened: float
    position: MessageId
    """The reader's position once it was open, before it returned anything."""
    complete: bool = False
    """Whether it came to the end that it was asked for, the tail as of its opening or `until`, and ended there."""
    until: MessageId | None = None
    """Before which message it was asked to end, if that was an id."""
    ended: float = inf
    """When it came to its end."""
    time_us: int = 0
    """The append time of a message that had been read, or less, if it was asked to begin at a time."""


@dataclass(frozen=True, slots=True)
class ReportedGap:
    """A reader said that it leaves out the messages from `first` up to, not including, `resume_at`."""

    first: MessageId
    resume_at: MessageId
    at: float


@dataclass(slots=True)
class History:
    appends: list[Append] = field(default_factory=list)
    takeovers: list[Takeover] = field(default_factory=list)
    readers: dict[str, list[Observation]] = field(default_factory=dict)
    final: list[tuple[MessageId, bytes]] = field(default_factory=list)
    """Everything from the earliest message on, read after all faults were healed."""
    complete: bool = True
    """Whether the last read came to its end. If not, `final` is what readers have seen at any time."""
    whole_reads: list[WholeRead] = field(default_factory=list)
    starts: dict[str, ReadFrom] = field(default_factory=dict)
    """Of readers that were opened, by name."""
    expected: dict[bytes, MessageId] = field(default_factory=dict)
    """Of conditional appends, by payload: the id that the log's last message had to have."""
    times_us: dict[MessageId, int] = field(default_factory=dict)
    """Append times of the messages that readers returned, in microseconds."""
    trimmed_before: MessageId = EARLIEST_ID
    """The trim position at the end: the highest of `trims` that took effect."""
    trims: list[Trim] = field(default_factory=list)
    resolutions: list[Resolved] = field(default_factory=list)
    strict: bool = True
    """Whether an acknowledged message must be seen by every reader opened afterwards."""
    skipping: set[str] = field(default_factory=set)
    """Readers that continue after trimmed messages, as they were asked to."""
    gaps: dict[str, list[ReportedGap]] = field(default_factory=dict)
    """What the readers reported that were asked to report what they leave out; each of them is here."""

    @property
    def log(self) -> list[tuple[MessageId, bytes]]:
        """Every message that was ever committed: below the trim position from the shadows, then `final`."""
        if not self.trims:
            return self.final
        below = {
            message_id: payload
            for trim in self.trims
            for message_id, payload in trim.shadow
            if message_id < self.trimmed_before
        }
        return sorted(below.items()) + self.final

    def observed(self) -> Iterator[tuple[str, list[Observation]]]:
        """What every reader returned; the shadows are readers, too."""
        yield from self.readers.items()
        for number, trim in enumerate(self.trims):
            shadow = [Observation(message_id, payload, trim.invoked) for message_id, payload in trim.shadow]
            yield f"shadow {number}", shadow

    def trim_asked_until(self, moment: float) -> MessageId:
        """Everything from here on was readable at that moment."""
        return max((trim.before for trim in self.trims if trim.invoked <= moment), default=EARLIEST_ID)
