"""v3 adds by hand, as Java writes them: what stands before an entry, and the answer that success has. Pure.

    0a n                    header of n bytes
      08 03  10 02  18 v    version 3, ADD_ENTRY, transaction id
    aa 06 v                 add request of v bytes
      08 v   10 v           ledger id, entry id
      1a 14  20 bytes       master key
      22 v   v bytes        the entry

    0a n  08 03  10 02  18 v          header of the answer
    10 00                             status EOK
    aa 06 n  08 00  10 v  18 v        answer of n bytes: status EOK, ledger id, entry id

Recovery adds have a priority and a flag more, deferred adds a flag. The codec writes them: they are rare.
"""

from __future__ import annotations

import re

from ledger.wire import v3
from ledger.wire.frame import LENGTH
from ledger.wire.messages import Operation, V3AddRequest, V3Request, WriteFlag
from ledger.wire.varint import varint, varint_value

HIGH_PRIORITY = 100
"""What Java's client sends with the reads and adds of a recovery; bookies ask whether it is above 0."""

_VARINT = rb"([\x80-\xff]{0,9}[\x00-\x7f])"
_ADDED = re.compile(
    rb"\x0a(.)\x08\x03\x10\x02\x18" + _VARINT + rb"\x10\x00\xaa\x06(.)\x08\x00\x10" + _VARINT
    + rb"\x18" + _VARINT,
    re.DOTALL,
)  # fmt: skip
_ID_END = 1 << 63


def add_start(txn_id: int, ledger_id: int, entry_id: int, key: bytes, entry_bytes: int) -> bytes:
    """The frame of an add up to where the entry begins; the key has 20 bytes."""
    txn = varint(txn_id)
    inner = b"\x08%b\x10%b\x1a\x14%b\x22%b" % (varint(ledger_id), varint(entry_id), key, varint(entry_bytes))
    start = b"\x0a%c\x08\x03\x10\x02\x18%b\xaa\x06%b%b" % (
        5 + len(txn),
        txn,
        varint(len(inner) + entry_bytes),
        inner,
    )
    return LENGTH.pack(len(start) + entry_bytes) + start


def recovery_add(txn_id: int, ledger_id: int, entry_id: int, key: bytes, entry: bytes) -> bytes:
    """The whole frame of an add that a fenced ledger takes, and a read-only bookie too."""
    body = V3AddRequest(ledger_id=ledger_id, entry_id=entry_id, master_key=key, entry=entry, recovery=True)
    request = V3Request(txn_id=txn_id, operation=Operation.ADD_ENTRY, body=body, priority=HIGH_PRIORITY)
    return v3.encode_request(request)


def deferred_add(txn_id: int, ledger_id: int, entry_id: int, key: bytes, entry: bytes) -> bytes:
    """The whole frame of an add that is acknowledged before it is synced."""
    body = V3AddRequest(
        ledger_id=ledger_id,
        entry_id=entry_id,
        master_key=key,
        entry=entry,
        write_flags=WriteFlag.DEFERRED_SYNC,
    )
    return v3.encode_request(V3Request(txn_id=txn_id, operation=Operation.ADD_ENTRY, body=body))


def added(body: memoryview) -> tuple[int, int] | None:
    """Ledger and entry id of the answer with which every good add is answered; None if it is another."""
    found = _ADDED.fullmatch(body)
    if found is None:
        return None
    header, txn, inner, ledger, entry = found.groups()
    ledger_id, entry_id = varint_value(ledger), varint_value(entry)
    if (
        header[0] != 5 + len(txn)
        or inner[0] != 4 + len(ledger) + len(entry)
        or ledger_id >= _ID_END
        or entry_id >= _ID_END
    ):
        return None
    return ledger_id, entry_id
