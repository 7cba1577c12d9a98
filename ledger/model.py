"""Immutable values that client, bookie and metadata drivers share. Pure; the terms are BookKeeper's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Generic, NewType, TypeVar

from ledger.arguments import require_fields
from ledger.errors import ConfigurationError, InvalidNameError, MetadataFormatError
from ledger.field_docs import with_field_docs

LedgerId = NewType("LedgerId", int)
EntryId = NewType("EntryId", int)
BookieId = NewType("BookieId", str)

NO_ENTRY = EntryId(-1)
"""The entry id that means "none": the LAC of an empty ledger, the last entry of an empty closed one."""

LEDGER_ID_MAX = 2**63 - 1
FRAME_BYTES_MAX = 5 * 1024 * 1024
"""Whole frame with its length prefix (docs/bookkeeper.md#frames; Apache's default)."""
ENTRY_BYTES_MAX = FRAME_BYTES_MAX - 500
"""Header, digest and payload of one entry. Some hundred bytes below the frame, so v3 can carry it too."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Versioned(Generic[T]):
    """A value and the store's version of it, which a compare-and-set names."""

    value: T
    version: int


@with_field_docs
@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumSizes:
    """Replication of one ledger, counted in bookies (docs/bookkeeper.md#ledger-metadata).

    `ensemble` bookies hold the ledger, each entry is written to `write` of them, and an add is done after `ack`
    answers.

    Raises:
        ConfigurationError: not 1 <= ack <= write <= ensemble.
    """

    ensemble: int = 3
    """Bookies that hold the ledger."""

    write: int = 3
    """Bookies to which each entry is written; below `ensemble`, entries are spread over it."""

    ack: int = 2
    """Bookies that must have an entry durably before its add is done."""

    def __post_init__(self) -> None:
        require_fields(self)
        if not 1 <= self.ack <= self.write <= self.ensemble:
            raise ConfigurationError(
                f"quorum sizes need 1 <= ack <= write <= ensemble, got ensemble {self.ensemble}, "
                f"write {self.write}, ack {self.ack}"
            )


class DigestType(IntEnum):
    """Checksum of a ledger's entries; values as in metadata (docs/bookkeeper.md#digests, #metadata-formats)."""

    CRC32 = 1
    HMAC = 2
    """HMAC-SHA1, keyed by the ledger's password."""
    CRC32C = 3
    DUMMY = 4
    """None: damage is not detected."""


class LedgerState(IntEnum):
    """The states of a ledger and who may change them: docs/bookkeeper.md#ledger-life."""

    OPEN = 1
    """A writer may add entries."""
    IN_RECOVERY = 2
    """Another client has fenced the writer and determines the last entry."""
    CLOSED = 3
    """Closed: nothing changes any more."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """Entries from `first_entry` up to the next fragment are stored on this ensemble; the order of members matters."""

    first_entry: EntryId
    ensemble: tuple[BookieId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerMetadata:
    """One ledger's metadata. `length` (payload bytes) and `last_entry` are meaningful once CLOSED.

    Raises:
        MetadataFormatError: the fragments contradict each other or `quorum`.
    """

    quorum: QuorumSizes
    fragments: tuple[Fragment, ...]
    state: LedgerState = LedgerState.OPEN
    last_entry: EntryId = NO_ENTRY
    length: int = 0
    digest_type: DigestType = DigestType.CRC32C
    password: bytes = field(default=b"", repr=False)
    custom: tuple[tuple[str, bytes], ...] = ()
    created_ms: int | None = None
    c_token: int | None = None
    format_version: int = 3

    def __post_init__(self) -> None:
        if not self.fragments:
            raise MetadataFormatError("ledger metadata has no fragment")
        previous = -1
        for fragment in self.fragments:
            if fragment.first_entry <= previous:
                raise MetadataFormatError(
                    f"fragments must start at rising entries, got {fragment.first_entry} after {previous}"
                )
            previous = fragment.first_entry
            if len(fragment.ensemble) != self.quorum.ensemble:
                raise MetadataFormatError(
                    f"fragment at {fragment.first_entry} names {len(fragment.ensemble)} bookies, "
                    f"the ensemble size is {self.quorum.ensemble}"
                )
            if len(set(fragment.ensemble)) != len(fragment.ensemble):
                raise MetadataFormatError(f"fragment at {fragment.first_entry} names a bookie twice")

    @property
    def closed(self) -> bool:
        """Whether the state is CLOSED."""
        return self.state is LedgerState.CLOSED

    @property
    def last_fragment(self) -> Fragment:
        """The fragment that a writer adds to."""
        return self.fragments[-1]

    def fragment_of(self, entry_id: int) -> Fragment:
        """The fragment that holds `entry_id` (the last one that starts at or below it)."""
        found = self.fragments[0]
        for fragment in self.fragments:
            if fragment.first_entry > entry_id:
                break
            found = fragment
        return found

    def custom_value(self, key: str) -> bytes | None:
        """The custom value of this name; None if there is none."""
        return next((value for name, value in self.custom if name == key), None)

    def with_state(self, state: LedgerState) -> LedgerMetadata:
        """The same in another state."""
        return replace(self, state=state)

    def closed_at(self, last_entry: EntryId, length: int) -> LedgerMetadata:
        """The same, CLOSED at this entry with this length."""
        return replace(self, state=LedgerState.CLOSED, last_entry=last_entry, length=length)

    def with_fragment(self, fragment: Fragment) -> LedgerMetadata:
        """Append a fragment; one with the last fragment's first entry replaces it."""
        kept = self.fragments
        if kept[-1].first_entry == fragment.first_entry:
            kept = kept[:-1]
        return replace(self, fragments=(*kept, fragment))

    def members(self) -> Iterator[BookieId]:
        """The bookies of all fragments, repeated where a bookie is in several."""
        for fragment in self.fragments:
            yield from fragment.ensemble


DURABLE_DELETIONS = ("deletions", "durable")
"""Registered by a bookie that remembers deleted ledgers across restarts and permanently refuses adds to them."""

_BOOKIE_ID = re.compile(r"[a-zA-Z0-9:-_.\-]+")


def check_bookie_id(text: str) -> BookieId:
    """Return `text` as a bookie id (docs/bookkeeper.md#bookie-ids).

    Raises:
        InvalidNameError: it is not a legal one.
    """
    reserved = text in (".", "..") or text.lower() == "readonly"
    if reserved or not _BOOKIE_ID.fullmatch(text) or "/" in text or len(text) > 255:
        raise InvalidNameError(
            f"bookie id {text!r} is not valid: use up to 255 letters, digits and . : - _, and not 'readonly'"
        )
    return BookieId(text)


Location = tuple[str, ...]
"""Where a bookie is: its zone, if it has one, and so on down to its rack. Empty: not known."""

NETWORK_LOCATION = "networkLocation"
"""Name of the property in which a bookie publishes its location."""

_LOCATION = re.compile(r"(/[a-zA-Z0-9_.\-]+){1,8}")


def check_location(text: str) -> Location:
    """Return the names of a location such as /zone/rack, or /rack.

    Raises:
        InvalidNameError: it is not a legal one.
    """
    if not _LOCATION.fullmatch(text) or len(text) > 255:
        raise InvalidNameError(
            f"location {text!r} is not valid: write /rack or /zone/rack, up to 8 names of letters, digits and . _ -"
        )
    return tuple(text[1:].split("/"))


@dataclass(frozen=True, slots=True, kw_only=True)
class BookieInfo:
    """A registered bookie: where its bookie-rpc endpoint is, and whether it takes writes."""

    bookie_id: BookieId
    host: str
    port: int
    read_only: bool = False
    properties: tuple[tuple[str, str], ...] = ()

    @property
    def location(self) -> Location:
        """What it publishes as its location; empty if it publishes none, or one that is not valid."""
        text = next((value for name, value in self.properties if name == NETWORK_LOCATION), "")
        try:
            return check_location(text) if text else ()
        except InvalidNameError:
            return ()


@dataclass(frozen=True, slots=True)
class DamagedRegistration:
    """A bookie that is registered, so it runs, without an address that can be decoded, so no client reaches it."""

    bookie_id: BookieId
    reason: str


@dataclass(frozen=True, slots=True)
class BookieSet:
    """One consistent snapshot of the registered bookies."""

    writable: tuple[BookieInfo, ...] = ()
    read_only: tuple[BookieInfo, ...] = ()
    damaged: tuple[DamagedRegistration, ...] = ()

    def find(self, bookie_id: BookieId) -> BookieInfo | None:
        """Where this bookie is; None if it is not registered, or its registration is damaged."""
        for info in (*self.writable, *self.read_only):
            if info.bookie_id == bookie_id:
                return info
        return None

    def is_registered(self, bookie_id: BookieId) -> bool:
        """Whether the bookie runs, or its session has not expired yet."""
        return self.find(bookie_id) is not None or any(each.bookie_id == bookie_id for each in self.damaged)

    def registered(self) -> list[BookieId]:
        """All of them, sorted."""
        infos = (*self.writable, *self.read_only)
        return sorted([each.bookie_id for each in infos] + [each.bookie_id for each in self.damaged])
