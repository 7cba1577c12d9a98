"""WRITE_LAC by hand: the bytes that the v3 codec writes, at a tenth of its cost. Pure.

A strict append ends with this message, so its cost is part of every such append. Requests are recognized only
in the form in which Java and we write them; whatever differs (a priority, another order) is left to the codec.

    0a n                    header of n bytes
      08 03  10 06  18 v    version 3, WRITE_LAC, transaction id
    ba 06 v                 request of v bytes
      08 v   10 v           ledger id, LAC (the packet's counts)
      1a 14  20 bytes       master key
      22 v   v bytes        packet: ledger id, LAC, digest

    0a n  08 03  10 06  18 v    header of the answer
    10 v                        status
    ba 06 v  08 v  10 v         answer of v bytes: status, ledger id

Protocol: docs/bookkeeper.md#explicit-lac.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ledger.wire.frame import LENGTH
from ledger.wire.varint import varint, varint_value

_VARINT = rb"([\x80-\xff]{0,9}[\x00-\x7f])"
_REQUEST = re.compile(
    rb"\x0a(.)\x08\x03\x10\x06\x18" + _VARINT + rb"\xba\x06" + _VARINT
    + rb"\x08" + _VARINT + rb"\x10" + _VARINT + rb"\x1a\x14(.{20})\x22" + _VARINT,
    re.DOTALL,
)  # fmt: skip
_LEDGER_ID_END = 1 << 63


class WrittenLac(NamedTuple):
    """A request; its ids as varints too, because the answer repeats them."""

    txn_id: bytes
    ledger: bytes
    ledger_id: int
    key: bytes
    packet: bytes


def encode_write_lac(txn_id: int, ledger_id: int, lac: int, key: bytes, packet: bytes) -> bytes:
    """The whole frame of a request, with a key of 20 bytes."""
    txn = varint(txn_id)
    inner = b"\x08%b\x10%b\x1a\x14%b\x22%b%b" % (
        varint(ledger_id),
        varint(lac),
        key,
        varint(len(packet)),
        packet,
    )
    body = b"\x0a%c\x08\x03\x10\x06\x18%b\xba\x06%b%b" % (5 + len(txn), txn, varint(len(inner)), inner)
    return LENGTH.pack(len(body)) + body


def written_lac(block: bytes, start: int, stop: int) -> WrittenLac | None:
    """The request that the frame body block[start:stop] is; None if the codec must look at it."""
    found = _REQUEST.match(block, start, stop)
    if found is None:
        return None
    header, txn, request, ledger, _, key, packet = found.groups()
    ledger_id = varint_value(ledger)
    if (
        header[0] != 5 + len(txn)
        or varint_value(request) != stop - found.end(3)
        or varint_value(packet) != stop - found.end()
        or ledger_id >= _LEDGER_ID_END
    ):
        return None
    return WrittenLac(txn, ledger, ledger_id, key, block[found.end() : stop])


def lac_answer(txn_id: bytes, ledger: bytes, status_code: int) -> bytes:
    """The body of an answer, ids given as varints."""
    status = varint(status_code)
    return b"\x0a%c\x08\x03\x10\x06\x18%b\x10%b\xba\x06%c\x08%b\x10%b" % (
        5 + len(txn_id),
        txn_id,
        status,
        2 + len(status) + len(ledger),
        status,
        ledger,
    )
