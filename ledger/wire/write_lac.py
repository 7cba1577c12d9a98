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
from ledger.wire.status import Status, to_v3
from ledger.wire.varint import varint, varint_value

_VARINT = rb"([\x80-\xff]{0,9}[\x00-\x7f])"
_REQUEST = re.compile(
    rb"\x0a(.)\x08\x03\x10\x06\x18" + _VARINT + rb"\xba\x06" + _VARINT
    + rb"\x08" + _VARINT + rb"\x10" + _VARINT + rb"\x1a\x14(.{20})\x22" + _VARINT,
    re.DOTALL,
)  # fmt: skip
_LEDGER_ID_END = 1 << 63
_SUCCESS = varint(to_v3(Status.EOK))


class WrittenLac(NamedTuple):
    """A request; its ids as varints too, because the answer repeats them."""

    txn_id: bytes
    ledger: bytes
    ledger_id: int
    key: bytes
    packet: bytes


class LacWrite:
    """One LAC of one ledger, to be written to several bookies: what their requests share is encoded once."""

    __slots__ = ("_answer_end", "_request_end", "ledger_id")

    def __init__(self, ledger_id: int, lac: int, key: bytes, packet: bytes) -> None:
        """`key` has 20 bytes; `packet` is the LAC with its digest."""
        ledger = varint(ledger_id)
        inner = b"\x08%b\x10%b\x1a\x14%b\x22%b%b" % (ledger, varint(lac), key, varint(len(packet)), packet)
        self.ledger_id = ledger_id
        self._request_end = b"\xba\x06%b%b" % (varint(len(inner)), inner)
        self._answer_end = _answer_end(ledger, _SUCCESS)

    def request(self, txn: bytes) -> bytes:
        """The whole frame of the request with this transaction id, a varint."""
        end = self._request_end
        size = 7 + len(txn) + len(end)
        return b"%b\x0a%c\x08\x03\x10\x06\x18%b%b" % (LENGTH.pack(size), 5 + len(txn), txn, end)

    def success(self, txn: bytes) -> bytes:
        """The body of the answer that says that the LAC is stored."""
        return b"\x0a%c\x08\x03\x10\x06\x18%b%b" % (5 + len(txn), txn, self._answer_end)


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
    end = _answer_end(ledger, varint(status_code))
    return b"\x0a%c\x08\x03\x10\x06\x18%b%b" % (5 + len(txn_id), txn_id, end)


def _answer_end(ledger: bytes, status: bytes) -> bytes:
    """What follows an answer's header."""
    return b"\x10%b\xba\x06%c\x08%b\x10%b" % (status, 2 + len(status) + len(ledger), status, ledger)
