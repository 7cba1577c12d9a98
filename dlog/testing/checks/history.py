"""What happened to a log, as its users saw it: appends with their outcomes, and what readers returned.

Times are any one clock that rises; payloads are unique, so that messages are distinguishable.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from dlog.model import EARLIEST_ID, MessageId


class Outcome(Enum):
    ACKED = "acked"
    REJECTED = "rejected"
    """Certainly absent."""
    INDETERMINATE = "indeterminate"
    """At its would-be id or nowhere."""
    CANCELLED = "cancelled"
    """Its caller gave up in time, perhaps: there once or not at all."""


@dataclass(frozen=True, slots=True)
class Append:
    """One append of one writer handle; `number` counts the handle's submissions."""

    writer: str
    number: int
    payload: bytes
    invoked: float
    returned: float
    outcome: Outcome
    message_id: MessageId | None = None


@dataclass(frozen=True, slots=True)
class Takeover:
    """The handle `writer` was opened; from `returned` on, no earlier writer may get an acknowledgement."""

    writer: str
    returned: float


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
    trimmed_before: MessageId = EARLIEST_ID
    """Nobody can read what lies below; what was asked for may be higher than what was granted."""
    resolutions: list[tuple[bytes, MessageId, str]] = field(default_factory=list)
    """Reported outcomes of indeterminate appends: payload, would-be id, answer."""
    strict: bool = True
    """Whether an acknowledged message must be seen by every reader opened afterwards."""
