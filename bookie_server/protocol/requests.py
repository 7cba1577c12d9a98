"""Requests to a bookie: one frozen type for each kind, the same for both versions of the protocol. Pure.

A version's decoder (v2.py, v3.py) makes the request and attaches the encoder of its response. `serve.py` has one
function for each kind, which does not know the version. Adds that arrived together are one request, and so are
explicit LACs. The others are one for each frame; they are named tuples, because a frozen dataclass takes four times as
long to make.

Encoders return whole frames, ready to send. A refusal is a response with nothing but its status.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from bookie_server.storage.ranges import Range
from bookie_server.storage.stored_entry import StoredEntry
from ledger.wire.status import Status
from ledger.wire.write_lac import WrittenLac

Frame: TypeAlias = Sequence[bytes | memoryview]
"""One frame in parts, so that a large entry need not be copied."""


class Encoder(Protocol):
    """Encodes the response to one request in its version."""

    def refusal(self, status: Status) -> bytes: ...


class AddEncoder(Protocol):
    def added(self, runs: Sequence[AddRun], status: Status, conflicts: frozenset[int]) -> bytes:
        """One response for each entry; those with an id in `conflicts` are refused with EBADREQ."""


class ReadEncoder(Encoder, Protocol):
    def entry(self, entry: StoredEntry, lac: int | None) -> Frame:
        """The entry as stored; version 3 adds the ledger's LAC, unless it is None."""


class BatchReadEncoder(Encoder, Protocol):
    def entries(self, entries: Sequence[StoredEntry]) -> bytes:
        """At least one entry."""


class LongPollEncoder(ReadEncoder, Protocol):
    def lac(self, lac: int, updated_ms: int | None) -> bytes:
        """The LAC alone. `updated_ms`: when it arrived, in ms since 1970, if it ended a wait."""

    def next_entry(self, entry_id: int, entry: StoredEntry, lac: int, updated_ms: int | None) -> bytes:
        """The LAC and the entry after the reader's own."""


class LacEncoder(Protocol):
    def written(self, lacs: Sequence[WrittenLac], status: Status) -> bytes:
        """One response for each."""


class ForceEncoder(Protocol):
    def forced(self, status: Status) -> bytes: ...


class ReadLacEncoder(Encoder, Protocol):
    def explicit_lac(self, status: Status, packet: bytes | None, last_entry: StoredEntry | None) -> bytes: ...


class ListEntriesEncoder(Encoder, Protocol):
    def available(self, ranges: Sequence[Range]) -> bytes: ...


class BookieInfoEncoder(Protocol):
    def info(self, total_bytes: int | None, free_bytes: int | None) -> bytes: ...


class Echo(NamedTuple):
    """What the response to one version 3 add repeats, as varints."""

    txn_id: bytes
    ledger_id: bytes
    entry_id: bytes


class AddRun(NamedTuple):
    """Adds of one ledger under one key, in the order received. Never empty."""

    ledger_id: int
    key: bytes
    recovery: bool
    """May be added to a fenced ledger."""
    priority: bool
    """Taken by a read-only bookie while its reserve lasts."""
    ids: list[int]
    entries: list[StoredEntry]
    echoes: Sequence[Echo]
    """One for each entry in version 3, none in version 2."""


class Adds(NamedTuple):
    """Adds that arrived together: one run for each ledger and key."""

    runs: Sequence[AddRun]
    byte_count: int
    """What they take of the connection's budget until they are durable."""
    encoder: AddEncoder


class Read(NamedTuple):
    ledger_id: int
    entry_id: int
    """LAST_ENTRY (-1): the last entry that the bookie has."""
    fence_key: bytes | None
    """Fence the ledger first; its master key. None: a plain read, which needs no key."""
    urgent: bool
    """Part of a recovery: served before others."""
    encoder: ReadEncoder


class BatchRead(NamedTuple):
    """Consecutive entries from `entry_id` on, while they fit. The first one is returned whatever its size."""

    ledger_id: int
    entry_id: int
    fence_key: bytes | None
    urgent: bool
    count_max: int
    """0 or less: no limit."""
    bytes_max: int
    """Of entries and 4 bytes for each."""
    encoder: BatchReadEncoder


class LongPoll(NamedTuple):
    """Wait until the LAC is higher than `previous_lac`, then respond."""

    ledger_id: int
    entry_id: int
    previous_lac: int
    timeout_s: float
    """0 or less: do not wait."""
    piggyback: bool
    """Respond with the entry after `previous_lac` and the LAC; otherwise as to a plain read of `entry_id`."""
    urgent: bool
    encoder: LongPollEncoder


class WriteLacs(NamedTuple):
    """Explicit LACs that arrived together, in the order received."""

    lacs: Sequence[WrittenLac]
    encoder: LacEncoder


class ReadLac(NamedTuple):
    ledger_id: int
    urgent: bool
    encoder: ReadLacEncoder


class Force(NamedTuple):
    """Respond when everything accepted so far is durable."""

    encoder: ForceEncoder


class ListEntries(NamedTuple):
    ledger_id: int
    urgent: bool
    encoder: ListEntriesEncoder


class BookieInfo(NamedTuple):
    total: bool
    free: bool
    encoder: BookieInfoEncoder


class Answered(NamedTuple):
    """Needs nothing of the bookie: the decoder refused it, or it is the authentication handshake."""

    response: bytes


Request: TypeAlias = (
    Adds | Read | BatchRead | LongPoll | WriteLacs | ReadLac | Force | ListEntries | BookieInfo | Answered
)

Gathered: TypeAlias = tuple[Adds | WriteLacs | None, int]
"""Writes of one kind that arrived together, and where the first other frame starts. None: there is none."""


class Decoder(NamedTuple):
    """Requests of one version, from a block of received bytes."""

    gather: Callable[[bytes, int, int], Gathered]
    """(block, position, frame_bytes_max): the adds from there on, or the explicit LACs, of the usual form."""
    decode: Callable[[bytes, int, int], Request | None]
    """(block, start, stop): the request in one frame body; None if it is not of this version.

    Raises ProtocolError if it is of no version.
    """
