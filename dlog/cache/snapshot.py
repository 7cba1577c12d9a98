"""One view of a cluster's metadata, immutable: what it contains, what it says, and the view after a change. Pure.

A snapshot may be stale, so it decides nothing that must be right: a bookie's error or a refused compare-and-set is
the proof, and the reason to read again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeVar

from dlog.admin import LogInfo
from dlog.model import LogName
from ledger.arguments import require_type
from ledger.core.distribution import write_set
from ledger.errors import ConfigurationError
from ledger.model import BookieId, BookieInfo, BookieSet, LedgerId, LedgerMetadata, Versioned

_K = TypeVar("_K")
_V = TypeVar("_V")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a copy of an entry is. `info` is None if the bookie is not registered, or its registration is damaged."""

    bookie_id: BookieId
    info: BookieInfo | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What reads have found since a snapshot. None as a value: it does not exist any more."""

    bookies: BookieSet | None = None
    """None: not read."""
    logs: Mapping[LogName, LogInfo | None] = field(default_factory=dict)
    ledgers: Mapping[LedgerId, Versioned[LedgerMetadata] | None] = field(default_factory=dict)
    damaged: Mapping[LogName | LedgerId, str] = field(default_factory=dict)
    """What could not be decoded, or is another cluster's, and why. It is in neither of the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disappeared:
    """What a snapshot no longer contains that the one before it did."""

    bookies: frozenset[BookieId] = frozenset()
    logs: frozenset[LogName] = frozenset()
    ledgers: frozenset[LedgerId] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.bookies or self.logs or self.ledgers)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataSnapshot:
    """The cluster as it was read. Replaced as a whole, so that a reader takes one reference and needs no lock."""

    cluster_id: str
    layout: bytes
    namespace: str
    """Where the name of a log is looked up that is given as a text."""
    bookies: BookieSet = field(default_factory=BookieSet)
    logs: Mapping[LogName, LogInfo] = field(default_factory=dict)
    ledgers: Mapping[LedgerId, Versioned[LedgerMetadata]] = field(default_factory=dict)
    """Of the logs and ledgers that the cache follows."""
    damaged: Mapping[LogName | LedgerId, str] = field(default_factory=dict)
    """Those whose newest value cannot be decoded, or is another cluster's, and why.

    Above they stay as they were last read, if they were.
    """

    # ---- contains

    def contains_log(self, log: LogName | str) -> bool:
        """Whether it is followed and exists.

        Raises:
            ConfigurationError: `log` is not a name.
            InvalidNameError: it is not a valid name.
        """
        return log_name(log, self.namespace) in self.logs

    def contains_ledger(self, ledger_id: LedgerId) -> bool:
        """Whether it is followed and exists. Raises ConfigurationError if `ledger_id` is not a number."""
        return checked_ledger_id(ledger_id) in self.ledgers

    def contains_bookie(self, bookie_id: BookieId) -> bool:
        """Whether it is registered: writable, read-only, or with a damaged registration.

        Raises ConfigurationError if `bookie_id` is not a text.
        """
        require_type("bookie_id", bookie_id, str)
        return self.bookies.is_registered(bookie_id)

    # ---- get

    def log(self, log: LogName | str) -> LogInfo | None:
        """Its record, None if it is not in the snapshot. Raises as `contains_log`."""
        return self.logs.get(log_name(log, self.namespace))

    def ledger(self, ledger_id: LedgerId) -> LedgerMetadata | None:
        """Its metadata, None if it is not in the snapshot. Raises as `contains_ledger`."""
        found = self.ledgers.get(checked_ledger_id(ledger_id))
        return None if found is None else found.value

    def endpoints(self, ledger_id: LedgerId, entry_id: int) -> tuple[Endpoint, ...] | None:
        """The entry's write set, in the order in which readers ask. None if the ledger is not in the snapshot.

        Raises:
            ConfigurationError: an id is not a number, or `entry_id` is negative.
        """
        require_type("entry_id", entry_id, int)
        if entry_id < 0:
            raise ConfigurationError(f"entry_id must not be negative, got {entry_id}")
        metadata = self.ledger(ledger_id)
        if metadata is None:
            return None
        ensemble = metadata.fragment_of(entry_id).ensemble
        members = (ensemble[position] for position in write_set(entry_id, metadata.quorum))
        return tuple(Endpoint(bookie_id, self.bookies.find(bookie_id)) for bookie_id in members)

    # ---- update

    def updated(self, changes: Changes) -> tuple[MetadataSnapshot, Disappeared]:
        """The snapshot with the changes, and what it no longer contains.

        A value that is older than the one here (a read that was overtaken) changes nothing.
        """
        logs = _merged(
            self.logs, {name: new for name, new in changes.logs.items() if self._is_newer(name, new)}
        )
        ledgers = _merged(
            self.ledgers,
            {
                ledger_id: new
                for ledger_id, new in changes.ledgers.items()
                if not _is_older(new, self.ledgers.get(ledger_id))
            },
        )
        bookies = self.bookies if changes.bookies is None else changes.bookies
        read = {*changes.logs, *changes.ledgers}
        kept = {key: why for key, why in self.damaged.items() if key not in read}
        damaged = {**kept, **changes.damaged}
        new = replace(self, bookies=bookies, logs=logs, ledgers=ledgers, damaged=MappingProxyType(damaged))
        return new, Disappeared(
            bookies=_ids(self.bookies) - _ids(bookies),
            logs=frozenset(self.logs) - frozenset(logs) if logs is not self.logs else frozenset(),
            ledgers=frozenset(self.ledgers) - frozenset(ledgers)
            if ledgers is not self.ledgers
            else frozenset(),
        )

    def _is_newer(self, name: LogName, new: LogInfo | None) -> bool:
        """Versions compare within one incarnation of the log only."""
        old = self.logs.get(name)
        return new is None or old is None or new.ref != old.ref or new.version >= old.version


def log_name(log: LogName | str, namespace: str) -> LogName:
    """The full name of a log; one given as a text is in `namespace`.

    Raises:
        ConfigurationError: `log` is neither a text nor a LogName.
        InvalidNameError: it is not a valid name.
    """
    require_type("log", log, LogName, str)
    return log if isinstance(log, LogName) else LogName(namespace=namespace, name=log)


def checked_ledger_id(ledger_id: LedgerId) -> LedgerId:
    """Raises ConfigurationError if it is not a number."""
    require_type("ledger_id", ledger_id, int)
    return ledger_id


def _is_older(new: Versioned[LedgerMetadata] | None, old: Versioned[LedgerMetadata] | None) -> bool:
    return new is not None and old is not None and new.version < old.version


def _merged(old: Mapping[_K, _V], new: Mapping[_K, _V | None]) -> Mapping[_K, _V]:
    if not new:
        return old
    merged = {**old, **{key: value for key, value in new.items() if value is not None}}
    for key, value in new.items():
        if value is None:
            merged.pop(key, None)
    return MappingProxyType(merged)


def _ids(bookies: BookieSet) -> frozenset[BookieId]:
    return frozenset(bookies.registered())
