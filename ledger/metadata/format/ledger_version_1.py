"""The lines of ledger metadata format 1. Pure; ledger.py adds the header.

    <write quorum>
    <ensemble size>
    <length>
    <first entry> TAB <bookie> TAB <bookie> ...      one line per fragment
    <last entry> TAB CLOSED                          CLOSED; IN_RECOVERY has last entry -102; OPEN nothing

The ack quorum is the write quorum. There is neither digest type nor password: BookKeeper's readers take
the digest they are configured with, ours take CRC32, the one of that time.
"""

from __future__ import annotations

import re

from ledger.errors import MetadataFormatError
from ledger.model import (
    DigestType,
    EntryId,
    Fragment,
    LedgerMetadata,
    LedgerState,
    QuorumSizes,
    check_bookie_id,
)

_IN_RECOVERY_MARK = -102
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,18})")


def encode_body(metadata: LedgerMetadata) -> bytes:
    lines = [str(metadata.quorum.write), str(metadata.quorum.ensemble), str(metadata.length)]
    for fragment in metadata.fragments:
        lines.append("\t".join((str(fragment.first_entry), *fragment.ensemble)))
    match metadata.state:
        case LedgerState.OPEN:
            end = ""
        case LedgerState.IN_RECOVERY:
            end = f"{_IN_RECOVERY_MARK}\tCLOSED"
        case LedgerState.CLOSED:
            end = f"{metadata.last_entry}\tCLOSED"
    return ("\n".join(lines) + "\n" + end).encode()


def decode_body(body: bytes) -> LedgerMetadata:
    lines = body.decode().split("\n")
    if len(lines) < 5:
        raise MetadataFormatError(f"ledger metadata of format 1 has {len(lines)} lines, it needs at least 5")
    write, ensemble, length = (_number(line) for line in lines[:3])
    state, last_entry = _end(lines[-1])
    if length < 0:
        raise MetadataFormatError(f"length {length} is not that of a ledger")
    return LedgerMetadata(
        quorum=QuorumSizes(ensemble=ensemble, write=write, ack=write),
        fragments=tuple(_fragment(line) for line in lines[3:-1]),
        state=state,
        last_entry=EntryId(last_entry),
        length=length,
        digest_type=DigestType.CRC32,
        format_version=1,
    )


def _fragment(line: str) -> Fragment:
    first_entry, *members = line.split("\t")
    return Fragment(EntryId(_number(first_entry)), tuple(check_bookie_id(member) for member in members))


def _end(line: str) -> tuple[LedgerState, int]:
    if not line:
        return LedgerState.OPEN, -1
    text, tab, word = line.partition("\t")
    if not tab or word != "CLOSED":
        raise MetadataFormatError(f"ledger metadata of format 1 ends with {line[:40]!r}, not with CLOSED")
    last_entry = _number(text)
    if last_entry == _IN_RECOVERY_MARK:
        return LedgerState.IN_RECOVERY, -1
    return LedgerState.CLOSED, last_entry


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text) or text == "-0":
        raise MetadataFormatError(f"ledger metadata of format 1 has {text[:40]!r} where a number must be")
    return int(text)
