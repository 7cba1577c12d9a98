"""What client and bookie say to each other, as values. Pure; bytes are made and read in v2.py and v3.py.

First the messages of the binary protocol ("v2"), then those of the protobuf protocol ("v3") with their
envelopes. A field that is None in a v3 message is absent on the wire. Entries are header, digest and payload
as stored (entry.py); those in decoded v2 messages are slices of the received frame.
"""

from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from struct import Struct
from typing import TypeAlias

from ledger.wire import constants
from ledger.wire.entry import Buffer
from ledger.wire.status import Status

_LONG = Struct(">q")

# ---- v2 requests


@dataclass(frozen=True, slots=True, kw_only=True)
class Packet:
    """What every v2 message carries in its header int."""

    version: int = constants.VERSION
    flags: int = 0
    ignored_bits: int = 0
    """Bits 23..8 of a version 0 header, which mean nothing; kept, so that encoding is exact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddRequest(Packet):
    """Store an entry. Its ids are those inside the entry."""

    master_key: bytes = field(repr=False)
    entry: Buffer

    @property
    def ledger_id(self) -> int:
        return int(_LONG.unpack_from(self.entry, 0)[0])

    @property
    def entry_id(self) -> int:
        return int(_LONG.unpack_from(self.entry, 8)[0])

    @property
    def recovery(self) -> bool:
        return bool(self.flags & constants.RECOVERY_ADD)

    @property
    def high_priority(self) -> bool:
        return bool(self.flags & constants.HIGH_PRIORITY)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest(Packet):
    """Read an entry (-1: the last one held); with the FENCE flag, fence the ledger first."""

    ledger_id: int
    entry_id: int
    master_key: bytes | None = field(default=None, repr=False)
    """There if, and only if, the packet fences and its version is 2 or higher."""
    trailing: bytes = b""
    """Bytes behind the last field; they mean nothing."""

    @property
    def fencing(self) -> bool:
        return bool(self.flags & constants.FENCE)

    @property
    def high_priority(self) -> bool:
        return bool(self.flags & constants.HIGH_PRIORITY)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReadRequest(ReadRequest):
    """Read consecutive entries from `entry_id` on, within a count and a budget for the response frame."""

    request_id: int
    max_count: int = 0
    """0 or less: no limit."""
    max_bytes: int
    """Whole response frame, length prefix included; the first entry comes even if it alone is larger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthMessage(Packet):
    """One step of a plugin's handshake, either direction. The header part matters in v2 only."""

    plugin_name: str
    payload: bytes


V2Request: TypeAlias = AddRequest | ReadRequest | BatchReadRequest | AuthMessage

# ---- v2 responses: flags are always 0, ids echo the request


@dataclass(frozen=True, slots=True, kw_only=True)
class AddResponse(Packet):
    status: Status
    ledger_id: int
    entry_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadResponse(Packet):
    """`entry` is there if, and only if, the status is EOK."""

    status: Status
    ledger_id: int
    entry_id: int
    entry: Buffer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReadResponse(Packet):
    """At least one entry if the status is EOK, none otherwise."""

    status: Status
    ledger_id: int
    entry_id: int
    request_id: int
    entries: tuple[Buffer, ...] = ()


V2Response: TypeAlias = AddResponse | ReadResponse | BatchReadResponse | AuthMessage

# ---- v3 requests


class Operation(IntEnum):
    """OperationType of a v3 header. 3, 4 and 12 are known and have no message: the answer is EBADREQ."""

    READ_ENTRY = 1
    ADD_ENTRY = 2
    RANGE_READ_ENTRY = 3
    RANGE_ADD_ENTRY = 4
    AUTH = 5
    WRITE_LAC = 6
    READ_LAC = 7
    GET_BOOKIE_INFO = 8
    START_TLS = 9
    FORCE_LEDGER = 10
    LIST_ENTRIES = 11
    BATCH_READ_ENTRY = 12


class ReadFlag(IntEnum):
    FENCE = 1
    PIGGYBACK = 2
    """Long poll: attach entry previous_lac + 1 if there is one."""


class WriteFlag(IntFlag):
    DEFERRED_SYNC = 1


class BookieInfoWanted(IntFlag):
    TOTAL_BYTES = 1
    FREE_BYTES = 2


V3_VERSION = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class V3ReadRequest:
    """A fence if `flag` is FENCE, else a long poll if `previous_lac` is there, else a plain read."""

    ledger_id: int
    entry_id: int
    master_key: bytes | None = field(default=None, repr=False)
    previous_lac: int | None = None
    timeout_ms: int | None = None
    flag: ReadFlag | None = None

    @property
    def fencing(self) -> bool:
        return self.flag is ReadFlag.FENCE

    @property
    def long_poll(self) -> bool:
        return self.previous_lac is not None and not self.fencing


@dataclass(frozen=True, slots=True, kw_only=True)
class V3AddRequest:
    """The ids that count are those inside `entry`; the outer ones are echoed."""

    ledger_id: int
    entry_id: int
    master_key: bytes = field(repr=False)
    entry: bytes
    write_flags: int | None = None
    recovery: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteLacRequest:
    """Keep `packet` (Digester.lac_packet) as the ledger's explicit LAC; the lac that counts is inside it."""

    ledger_id: int
    lac: int
    master_key: bytes = field(repr=False)
    packet: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLacRequest:
    ledger_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BookieInfoRequest:
    requested: int | None = None
    """Sum of BookieInfoWanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTlsRequest:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class ForceLedgerRequest:
    ledger_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListEntriesRequest:
    ledger_id: int


V3RequestBody: TypeAlias = (
    V3ReadRequest
    | V3AddRequest
    | AuthMessage
    | WriteLacRequest
    | ReadLacRequest
    | BookieInfoRequest
    | StartTlsRequest
    | ForceLedgerRequest
    | ListEntriesRequest
)


@dataclass(frozen=True, slots=True, kw_only=True)
class V3Request:
    """Envelope. `body` is None for an operation without a message, or one whose message may be left out."""

    txn_id: int
    operation: Operation
    body: V3RequestBody | None
    priority: int | None = None
    version: int = V3_VERSION
    """1 or 2 is answered with EBADVERSION."""

    @property
    def high_priority(self) -> bool:
        return (self.priority or 0) > 0


# ---- v3 responses


@dataclass(frozen=True, slots=True, kw_only=True)
class V3ReadResponse:
    """`max_lac` is the piggybacked LAC. In a long poll an `entry_id` above -1 says that `entry` is there."""

    status: Status
    ledger_id: int
    entry_id: int
    entry: bytes | None = None
    max_lac: int | None = None
    lac_update_ms: int | None = None
    """When the LAC that woke a long poll arrived, wall clock since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class V3AddResponse:
    status: Status
    ledger_id: int
    entry_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteLacResponse:
    status: Status
    ledger_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLacResponse:
    status: Status
    ledger_id: int
    lac_packet: bytes | None = None
    last_entry: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BookieInfoResponse:
    status: Status
    total_bytes: int | None = None
    free_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTlsResponse:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class ForceLedgerResponse:
    status: Status
    ledger_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListEntriesResponse:
    status: Status
    ledger_id: int
    availability: bytes | None = None
    """Which entries are there (availability.py)."""


V3ResponseBody: TypeAlias = (
    V3ReadResponse
    | V3AddResponse
    | AuthMessage
    | WriteLacResponse
    | ReadLacResponse
    | BookieInfoResponse
    | StartTlsResponse
    | ForceLedgerResponse
    | ListEntriesResponse
)


@dataclass(frozen=True, slots=True, kw_only=True)
class V3Response:
    """Envelope; header fields echo the request's. `body` is None when only the status is known."""

    txn_id: int
    operation: Operation
    status: Status
    body: V3ResponseBody | None = None
    priority: int | None = None
    version: int = V3_VERSION

    @property
    def outcome(self) -> Status:
        """The status that counts: the inner one, unless the outer one already reports an error."""
        if self.status is not Status.EOK or self.body is None:
            return self.status
        inner = getattr(self.body, "status", Status.EOK)
        assert isinstance(inner, Status)
        return inner
