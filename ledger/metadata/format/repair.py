"""Values of BookKeeper's autorecovery ↔ bytes: marks, locks, votes, its layout, the time of the last check. Pure.

Marks, locks, votes and the layout are protobuf text, a field a line; the time is binary.
Table: docs/formats.md, Metadata values.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from google.protobuf.message import DecodeError

from ledger.digits import whole_number
from ledger.errors import ConfigurationError, InvalidNameError, MetadataFormatError
from ledger.metadata.format.data_formats_pb2 import (
    AuditorVoteFormat,
    CheckAllLedgersFormat,
    LedgerRereplicationLayoutFormat,
    LockDataFormat,
    UnderreplicatedLedgerFormat,
)
from ledger.metadata.proto_text import parse_text, print_text
from ledger.metadata.repair_store import UnderReplicated
from ledger.model import BookieId, LedgerId, check_bookie_id

_LAYOUT_TYPE, _LAYOUT_VERSION = "BASIC", 1
_DELAY_S_MAX = 2**31 - 1

_log = logging.getLogger(__name__)


def encode_mark(mark: UnderReplicated) -> bytes:
    message = UnderreplicatedLedgerFormat(replica=mark.missing)
    if mark.marked_ms is not None:
        message.ctime = mark.marked_ms
    return print_text(message).encode()


def decode_mark(ledger_id: LedgerId, data: bytes) -> UnderReplicated:
    """MetadataFormatError for a mark that is damaged."""
    message = UnderreplicatedLedgerFormat()
    try:
        parse_text(data.decode(), message, "it")
        missing = tuple(check_bookie_id(replica) for replica in message.replica)
    except (UnicodeDecodeError, InvalidNameError, MetadataFormatError) as error:
        raise MetadataFormatError(
            f"the under-replication mark of ledger {ledger_id} is damaged: {error}", key=ledger_id
        ) from error
    return UnderReplicated(ledger_id, missing, message.ctime if message.HasField("ctime") else None)


def shown_mark(ledger_id: LedgerId, data: bytes) -> UnderReplicated:
    """As `decode_mark`; a damaged mark names no bookie, and so asks for a look at all of them."""
    try:
        return decode_mark(ledger_id, data)
    except MetadataFormatError as error:
        _log.warning("%s; all copies of that ledger are checked, as if it named no bookie", error)
        return UnderReplicated(ledger_id, (), None)


def merged_mark(
    ledger_id: LedgerId, found: bytes | None, missing: Collection[BookieId], now_ms: int
) -> bytes:
    """The mark that was found, if any, and these bookies. A damaged one is replaced: it says nothing."""
    known: tuple[BookieId, ...] = ()
    marked_ms: int | None = now_ms
    if found is not None:
        try:
            mark = decode_mark(ledger_id, found)
        except MetadataFormatError:
            mark = UnderReplicated(ledger_id, (), now_ms)
        known, marked_ms = mark.missing, mark.marked_ms
    added = sorted(each for each in set(missing) if each not in known)
    return encode_mark(UnderReplicated(ledger_id, (*known, *added), marked_ms))


def encode_holder(name: str) -> bytes:
    return print_text(LockDataFormat(bookieId=name)).encode()


def encode_vote(name: str) -> bytes:
    return print_text(AuditorVoteFormat(bookieId=check_bookie_id(name))).encode()


def shown_name(data: bytes) -> str:
    """The name in a lock or a vote, for display: whatever is there is shown."""
    message = LockDataFormat()  # a vote has the same field
    try:
        parse_text(data.decode(), message, "a lock or a vote")
    except (UnicodeDecodeError, MetadataFormatError):
        return repr(data[:100])
    return message.bookieId


def encode_repair_layout() -> bytes:
    message = LedgerRereplicationLayoutFormat(type=_LAYOUT_TYPE, version=_LAYOUT_VERSION)
    return print_text(message).encode()


def check_repair_layout(data: bytes) -> None:
    """MetadataFormatError if the under-replication tree is laid out in a way that we do not know."""
    message = LedgerRereplicationLayoutFormat()
    try:
        parse_text(data.decode(), message, "the layout of the under-replication tree")
    except UnicodeDecodeError as error:
        raise MetadataFormatError("the layout of the under-replication tree is not text") from error
    if (message.type, message.version) != (_LAYOUT_TYPE, _LAYOUT_VERSION):
        raise MetadataFormatError(
            f"the under-replication tree has layout {message.type[:40]!r} version {message.version}, known here is "
            f"{_LAYOUT_TYPE} version {_LAYOUT_VERSION}: use a newer version"
        )


def encode_check_time(now_ms: int) -> bytes:
    return CheckAllLedgersFormat(checkAllLedgersCTime=now_ms).SerializeToString()


def decode_check_time(data: bytes) -> int | None:
    """None for a value that is damaged: the check is done again, and writes a new one."""
    message = CheckAllLedgersFormat()
    try:
        message.ParseFromString(data)
    except DecodeError:
        return None
    return message.checkAllLedgersCTime if message.HasField("checkAllLedgersCTime") else None


def encode_delay(delay_s: int) -> bytes:
    """ConfigurationError for a number that `decode_delay` refuses: stored, it would end the work of every auditor."""
    if not 0 <= delay_s <= _DELAY_S_MAX:
        raise ConfigurationError(f"the lost-bookie delay must be 0 to {_DELAY_S_MAX} s, got {delay_s}")
    return b"%d" % delay_s


def decode_delay(data: bytes) -> int:
    """Seconds; MetadataFormatError if it is no number."""
    text = data.decode(errors="replace")
    found = whole_number(text, _DELAY_S_MAX)
    if found is None:
        raise MetadataFormatError(
            f"the lost-bookie delay that is stored is {text[:40]!r}, not a number of seconds from 0 to {_DELAY_S_MAX}: "
            "set it with `bookie repair-settings --lost-bookie-delay SECONDS`"
        )
    return found
