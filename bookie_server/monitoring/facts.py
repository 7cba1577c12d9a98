"""What a bookie knows of itself without looking anything up: read on the event loop, at no cost for its clients."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from bookie_server.disk.disk_limits import DirectoryUsage
from bookie_server.storage.ledger_storage import LedgerStorage, StorageCounts
from bookie_server.storage.scrub.record import ScrubPass


class State(StrEnum):
    STARTING = "starting"
    WRITABLE = "writable"
    READ_ONLY = "read-only"
    IN_LIMBO = "in limbo"
    """Serves reads and takeovers, as a read-only one."""
    STOPPING = "stopping"
    FAILED = "failed"
    """It ends, for the reason that its log and its exit give."""

    @property
    def is_healthy(self) -> bool:
        """Whether it serves clients."""
        return self in (State.WRITABLE, State.READ_ONLY, State.IN_LIMBO)


class Stage(StrEnum):
    """Of the process."""

    STARTING = "starting"
    SERVING = "serving"
    STOPPING = "stopping"


def state_of(stage: Stage, storage: LedgerStorage | None, failure: Exception | None) -> State:
    if failure is not None:
        return State.FAILED
    if stage is not Stage.SERVING or storage is None:
        return State.STOPPING if stage is Stage.STOPPING else State.STARTING
    if storage.limbo:
        return State.IN_LIMBO
    return State.WRITABLE if storage.writable else State.READ_ONLY


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFacts:
    """Of clients and what they have asked for, since the start."""

    connections: int
    sent_bytes: int
    """Of responses."""
    read_requests: int
    damaged_reads: int
    """Reads from disk that met damage, or entries that are lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GarbageFacts:
    """Of garbage collection, since the start."""

    passes: int
    failed_passes: int
    ledgers_waiting: int
    """Missing from the metadata, and not deleted yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubFacts:
    passes: int
    """That were completed since the start."""
    current: ScrubPass | None
    last: ScrubPass | None
    """The last complete one, also of an earlier process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageFacts:
    in_limbo: bool
    shortage: str | None
    """Why it is read-only, if space or descriptors lack."""
    directories: list[DirectoryUsage]
    """The journal's and those of the ledgers that have not failed, as measured last."""
    failed_directories: dict[str, str]
    """By ledger directory, its error."""
    missing_files: int
    """At the start."""
    counts: StorageCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class BookieFacts:
    """A part is None as long as the bookie does not have it."""

    state: State
    failure: str | None
    version: str
    uptime_s: float
    bookie: str
    """Its id; empty until it is known."""
    cluster: str
    """The same for the instance id."""
    journal_dir: str
    ledger_dirs: list[str]
    storage: StorageFacts | None
    clients: ClientFacts | None
    garbage: GarbageFacts | None
    scrub: ScrubFacts | None
    repair: dict[str, Any] | None
    """Of the worker in its process."""
