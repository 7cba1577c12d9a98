"""What the log's machines may ask of their shells. Imperatives, frozen, executed in the order given.

Those that wait are answered by one event each, named after the arrow.
"""

from __future__ import annotations

from dataclasses import dataclass

from dlog.model import LogMetadata
from ledger.errors import LogStoreError
from ledger.model import LedgerId

# ---- of a takeover and of a rotation


@dataclass(frozen=True, slots=True)
class CreateLedger:
    """→ on_ledger_created; of a rotation also on_create_failed"""

    epoch: int


@dataclass(frozen=True, slots=True)
class DiscardLedger:
    """Delete a ledger that was never listed and never can be. No event."""

    ledger_id: LedgerId


@dataclass(frozen=True, slots=True)
class WriteRecord:
    """One compare-and-set, lost answers resolved → on_answer; of a rotation also on_store_unavailable"""

    record: LogMetadata
    version: int


@dataclass(frozen=True, slots=True)
class Depose:
    """The log is permanently lost to its writer. `found` is the record of the new owner, if it is known."""

    found: LogMetadata | None


# ---- of a takeover


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """Read linearizably → on_record. `pauses` counts the rounds so far; wait a jittered time that grows with it."""

    pauses: int = 0


@dataclass(frozen=True, slots=True)
class FenceLedgers:
    """Recover all of them → on_fenced"""

    ledger_ids: tuple[LedgerId, ...]


@dataclass(frozen=True, slots=True)
class WaitForCandidate:
    """→ on_waited after about two seconds with jitter, so that a candidate wins (docs/log-semantics.md#rule-24b)"""


@dataclass(frozen=True, slots=True)
class TakenOver:
    """The log is ours: append to the ledger created last, if one was created."""

    record: LogMetadata
    version: int


@dataclass(frozen=True, slots=True)
class Fail:
    """The log is not ours."""

    error: LogStoreError


TakeoverCommand = (
    ReadRecord
    | FenceLedgers
    | WaitForCandidate
    | CreateLedger
    | WriteRecord
    | DiscardLedger
    | TakenOver
    | Depose
    | Fail
)


# ---- of a rotation. `Hold` and `SubmitTo` replace the one before.


@dataclass(frozen=True, slots=True)
class SubmitTo:
    """Appends go to this ledger, held ones first."""

    ledger_id: LedgerId


@dataclass(frozen=True, slots=True)
class Hold:
    """Appends are held, in order."""


@dataclass(frozen=True, slots=True)
class Release:
    """Acks of this ledger may be delivered from now on."""

    ledger_id: LedgerId


@dataclass(frozen=True, slots=True)
class Drain:
    """→ on_drained once no append is in flight in this ledger"""

    ledger_id: LedgerId


@dataclass(frozen=True, slots=True)
class CloseLedger:
    """→ on_closed, on_close_undecided, on_failed, on_lost"""

    ledger_id: LedgerId


@dataclass(frozen=True, slots=True)
class Recover:
    """Take the own log over (dlog/core/takeover.py): recover its unsealed ledgers, then go on in a new one.

    The recovery decides the appends in flight: those that it kept are acknowledged, the others held in order.
    → on_recovered, on_lost
    """

    fenced: bool
    """Another client has fenced a ledger: it gets time to win."""


@dataclass(frozen=True, slots=True)
class Retry:
    """→ on_retry after a pause that grows with `attempt`"""

    attempt: int


@dataclass(frozen=True, slots=True)
class ProbeStore:
    """Send the store any request with a short timeout → on_store_reachable, on_store_unreachable"""


@dataclass(frozen=True, slots=True)
class Finished:
    """The writer is closed; everything it accepted is acknowledged."""


RotationCommand = (
    SubmitTo
    | Hold
    | Release
    | CreateLedger
    | DiscardLedger
    | WriteRecord
    | Drain
    | CloseLedger
    | Recover
    | Retry
    | ProbeStore
    | Depose
    | Finished
)
