"""What happened to a log, as its users saw it: appends with their outcomes, and what readers returned.

Times are any one clock that rises; payloads are unique, so that a message can be told from every other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from dlog.model import MessageId


class Outcome(Enum):
    ACKED = "acked"
    REJECTED = "rejected"
    """Certainly absent."""
    INDETERMINATE = "indeterminate"
    """At its would-be id or nowhere."""


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
    """The handle `writer` was opened; from `returned` on, whoever wrote before must not be acknowledged."""

    writer: str
    returned: float


@dataclass(frozen=True, slots=True)
class Observation:
    """A reader returned a message."""

    message_id: MessageId
    payload: bytes
    at: float


@dataclass(slots=True)
class History:
    appends: list[Append] = field(default_factory=list)
    takeovers: list[Takeover] = field(default_factory=list)
    readers: dict[str, list[Observation]] = field(default_factory=dict)
    final: list[tuple[MessageId, bytes]] = field(default_factory=list)
    """Everything from the earliest message on, read after all faults were healed."""
