"""v3 adds of one received block, gathered by ledger as add_runs.py does for v2. Pure.

Java's clients write every add alike: fields in one order, no optional ones. Only these bytes are gathered;
whatever differs (a priority, a flag, another order, an odd id) goes through the codec, frame by frame. The
answer repeats the id fields as they came, so nothing is decoded that is only echoed.

    0a n                    header of n bytes
      08 03  10 02  18 v    version 3, ADD_ENTRY, transaction id
    aa 06 v                 add request of v bytes
      08 v   10 v           ledger id, entry id: echoed
      1a 14  20 bytes       master key
      22 v   v bytes        the entry; the ids inside it count
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from bookie_server.net.receive_buffer import LENGTH
from bookie_server.storage.stored_entry import EntryRun
from ledger.wire.entry import STORED_BYTES_MIN
from ledger.wire.varint import varint, varint_value

_VARINT = rb"([\x80-\xff]{0,9}[\x00-\x7f])"
_ADD = re.compile(
    rb"\x0a(.)\x08\x03\x10\x02\x18" + _VARINT + rb"\xaa\x06" + _VARINT
    + rb"\x08" + _VARINT + rb"\x10" + _VARINT + rb"\x1a\x14(.{20})\x22" + _VARINT,
    re.DOTALL,
)  # fmt: skip
_IDS = Struct(">qq")


class Echo(NamedTuple):
    """What the answer to one add repeats, as varints: transaction id, ledger id, entry id."""

    txn_id: bytes
    ledger_id: bytes
    entry_id: bytes


class RunV3:
    """Adds of one ledger under one key, and what their answers echo."""

    __slots__ = ("adds", "echoes", "key", "ledger_id")

    def __init__(self, ledger_id: int, key: bytes) -> None:
        self.ledger_id = ledger_id
        self.key = key
        self.adds = EntryRun()
        self.echoes: list[Echo] = []


def gather_v3(block: bytes, position: int, frame_bytes_max: int, runs: dict[tuple[int, bytes], RunV3]) -> int:
    """Put the add frames from `position` on into `runs`; return where the first other frame starts."""
    end, match, read_length = len(block), _ADD.match, LENGTH.unpack_from
    while end - position >= LENGTH.size:
        (length,) = read_length(block, position)
        start = position + LENGTH.size
        stop = start + length
        if stop > end or LENGTH.size + length > frame_bytes_max:
            break
        found = match(block, start, stop)
        if found is None or not _lengths_agree(found, stop) or stop - found.end() < STORED_BYTES_MIN:
            break
        entry = block[found.end() : stop]
        ledger_id, entry_id = _IDS.unpack_from(entry)
        if ledger_id < 0 or entry_id < 0:
            break
        _, txn, _, echo_ledger, echo_entry, key, _ = found.groups()
        run = runs.get((ledger_id, key))
        if run is None:
            run = runs[ledger_id, key] = RunV3(ledger_id, key)
        run.adds.ids.append(entry_id)
        run.adds.entries.append(entry)
        run.echoes.append(Echo(txn, echo_ledger, echo_entry))
        position = stop
    return position


def encode_add_responses_v3(status_code: int, echoes: Iterable[Echo]) -> bytes:
    """One answer for each add, in order: outer and inner status are the same."""
    status = varint(status_code)
    parts: list[bytes] = []
    for txn, ledger, entry in echoes:
        header = b"\x0a%c\x08\x03\x10\x02\x18%b\x10%b" % (5 + len(txn), txn, status)
        inner_bytes = 3 + len(status) + len(ledger) + len(entry)
        body = b"\xaa\x06%c\x08%b\x10%b\x18%b" % (inner_bytes, status, ledger, entry)
        parts += (LENGTH.pack(len(header) + len(body)), header, body)
    return b"".join(parts)


def _lengths_agree(found: re.Match[bytes], stop: int) -> bool:
    """Whether header, request and entry end where their lengths say."""
    return (
        found[1][0] == found.end(2) - found.end(1)
        and varint_value(found[3]) == stop - found.end(3)
        and varint_value(found[7]) == stop - found.end(7)
    )
