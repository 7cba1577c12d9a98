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
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from ledger.wire.frame import LENGTH
from ledger.wire.status import Status, to_v3
from ledger.wire.varint import varint, varint_value

_VARINT = rb"([\x80-\xff]{0,9}[\x00-\x7f])"
_REQUEST = re.compile(
    rb"\x0a(.)\x08\x03\x10\x06\x18" + _VARINT + rb"\xba\x06([\x00-\x7f])"
    + rb"\x08" + _VARINT + rb"\x10" + _VARINT + rb"\x1a\x14(.{20})\x22([\x00-\x7f])",
    re.DOTALL,
)  # fmt: skip
_LEDGER_ID_END = 1 << 63
_INNER_START = [b"\xba\x06%c" % size for size in range(128)]
"""By the bytes of the request inside a frame: two ids of at most ten bytes, a key of 20 and a packet of at most 36."""
_SUCCESS = varint(to_v3(Status.EOK))


class WrittenLac(NamedTuple):
    """A request; its ids as varints too, because the answer repeats them."""

    txn_id: bytes
    ledger: bytes
    ledger_id: int
    key: bytes
    packet: bytes


class LacWrite:
    """One LAC of one ledger, as every bookie gets it and answers it."""

    __slots__ = ("lac", "request", "success", "txn_id")

    def __init__(self, txn_id: int, lac: int, request: bytes, success: bytes) -> None:
        self.txn_id = txn_id
        self.lac = lac
        self.request = request
        """The whole frame."""
        self.success = success
        """The whole frame of the answer that says that the LAC is stored."""


class LedgerLacs:
    """The explicit LACs of one ledger: what all its requests share is encoded once."""

    __slots__ = ("_answer_end", "_before_lac", "_before_packet", "_fixed_bytes")

    def __init__(self, ledger_id: int, key: bytes, packet_bytes: int) -> None:
        """`key` has 20 bytes, each packet (a LAC with its digest) `packet_bytes`."""
        ledger = varint(ledger_id)
        self._before_lac = b"\x08%b\x10" % ledger
        self._before_packet = b"\x1a\x14%b\x22%b" % (key, varint(packet_bytes))
        self._fixed_bytes = len(self._before_lac) + len(self._before_packet)
        self._answer_end = _answer_end(ledger, _SUCCESS)

    def write(self, txn_id: int, lac: int, packet: bytes) -> LacWrite:
        """`packet` is the LAC with its digest."""
        txn, answer_end, position = varint(txn_id), self._answer_end, varint(lac)
        txn_bytes = len(txn)
        inner_bytes = self._fixed_bytes + len(position) + len(packet)
        pieces = (
            _head(10 + txn_bytes + inner_bytes, txn_bytes),
            txn,
            _INNER_START[inner_bytes],
            self._before_lac,
            position,
            self._before_packet,
            packet,
        )
        success = _head(7 + txn_bytes + len(answer_end), txn_bytes) + txn + answer_end
        return LacWrite(txn_id, lac, b"".join(pieces), success)


def written_lac(block: bytes, start: int, stop: int) -> WrittenLac | None:
    """The request that the frame body block[start:stop] is; None if the codec must look at it."""
    found = _REQUEST.match(block, start, stop)
    if found is None:
        return None
    header, txn, request, ledger, _, key, packet = found.groups()
    ledger_id, end = varint_value(ledger), found.end()
    if (
        header[0] != 5 + len(txn)
        or request[0] != stop - found.end(3)
        or packet[0] != stop - end
        or ledger_id >= _LEDGER_ID_END
    ):
        return None
    return WrittenLac(txn, ledger, ledger_id, key, block[end:stop])


def lac_answers(lacs: Iterable[WrittenLac], status_code: int) -> bytes:
    """The frames of the answers to these requests, in order."""
    status, pack_length = varint(status_code), LENGTH.pack
    fixed_bytes, inner_fixed_bytes = 13 + 2 * len(status), 2 + len(status)
    frames: list[bytes] = []
    for txn, ledger, _, _, _ in lacs:
        txn_bytes, ledger_bytes = len(txn), len(ledger)
        length, inner_bytes = (
            pack_length(fixed_bytes + txn_bytes + ledger_bytes),
            inner_fixed_bytes + ledger_bytes,
        )
        frames.append(
            b"%b\x0a%c\x08\x03\x10\x06\x18%b\x10%b\xba\x06%c\x08%b\x10%b"
            % (length, 5 + txn_bytes, txn, status, inner_bytes, status, ledger)
        )
    return b"".join(frames)


@lru_cache(maxsize=1024)
def _head(frame_bytes: int, txn_bytes: int) -> bytes:
    """What comes before the transaction id: one of a few dozen, since it depends on lengths alone."""
    return b"%b\x0a%c\x08\x03\x10\x06\x18" % (LENGTH.pack(frame_bytes), 5 + txn_bytes)


def _answer_end(ledger: bytes, status: bytes) -> bytes:
    """What follows an answer's header."""
    return b"\x10%b\xba\x06%c\x08%b\x10%b" % (status, 2 + len(status) + len(ledger), status, ledger)
