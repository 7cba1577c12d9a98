"""Adds of version 2: requests gathered by ledger into runs, and their responses. Pure.

Adds that arrived together for one ledger become one run, which the storage takes in one call. Ledgers may be
interleaved, which costs one look-up per entry. A frame that is not a well-formed add of version 2 ends the gathering,
so that adds and fences stay in the order they were sent.

    offset  size  field of an add request (docs/bookkeeper.md#v2-frames)
    0       4     length of what follows
    4       32    header, master key, ledger id: the same in all adds of one run
    36      8     entry id
    28      n     the entry as stored; it begins with the two ids

A response is 28 bytes: length 24, header, status, ledger id, entry id (docs/bookkeeper.md#matching-v2-responses).
Those of a run differ only in the last eight bytes, so they are one template, repeated, with the ids laid over it.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, pack
from typing import NamedTuple

from bookie_server.net.receive_buffer import LENGTH
from bookie_server.protocol.requests import AddRun, Gathered
from bookie_server.storage.stored_entry import EntryRun
from ledger.wire import constants as c
from ledger.wire.entry import STORED_BYTES_MIN
from ledger.wire.status import Status

START = Struct(">I32sq")
ENTRY_OFFSET = c.ADD_REQUEST_START.size
BODY_BYTES_MIN = ENTRY_OFFSET - LENGTH.size + STORED_BYTES_MIN
VIEW_BYTES_MIN = 16 * 1024
"""Larger entries are kept as views of the block. A small one is cheaper to copy, and the copy frees the block."""

_LEDGER_ID = 4 + c.MASTER_KEY_BYTES
_RESPONSE = c.ADD_RESPONSE
_BODY_BYTES = c.ADD_RESPONSE_BODY_BYTES
_ID_OFFSET = _RESPONSE.size - 8
SHORT_RUN = 8
"""Below it, packing one by one is faster than eight strided copies."""


class AddResponses(NamedTuple):
    """Encodes the responses to adds of one version."""

    header: int

    def added(self, run: AddRun, status: Status, conflicts: frozenset[int]) -> bytes:
        ids = run.entries.ids
        if not conflicts:
            return encode_add_responses(self.header, status, run.ledger_id, ids)
        return b"".join(
            encode_add_responses(
                self.header, Status.EBADREQ if each in conflicts else status, run.ledger_id, [each]
            )
            for each in ids
        )


_PLAIN = AddResponses(c.ADD_HEADER)


def gather(block: bytes, position: int, frame_bytes_max: int) -> Gathered:
    """The adds from `position` on, and where the first other frame starts."""
    runs: dict[bytes, AddRun] = {}
    view, end = memoryview(block), len(block)
    last_start, body_bytes_max = end - START.size, frame_bytes_max - LENGTH.size
    unpack, current = START.unpack_from, None
    while position <= last_start:
        length, head, entry_id = unpack(block, position)
        stop = position + 4 + length
        if stop > end or not BODY_BYTES_MIN <= length <= body_bytes_max or entry_id < 0:
            break
        if head != current:
            run = runs.get(head)
            if run is None:
                if not _starts_run(head):
                    break
                run = runs[head] = _run_of(head)
            entries = run.entries
            current, put_id, put_entry = head, entries.ids.append, entries.entries.append
        put_id(entry_id)
        put_entry(block[position + 28 : stop] if length < VIEW_BYTES_MIN else view[position + 28 : stop])
        position = stop
    return runs.values(), position


def _starts_run(head: bytes) -> bool:
    """An add of version 2 with a ledger id that is not negative. Other versions are rare and take the slow path."""
    return head[0] == c.VERSION and head[1] == c.ADD and head[_LEDGER_ID] < 0x80


def _run_of(head: bytes) -> AddRun:
    """An empty run of the adds that begin with `head`."""
    flags = int.from_bytes(head[2:4], "big")
    return AddRun(
        int.from_bytes(head[_LEDGER_ID:], "big"),
        head[4:_LEDGER_ID],
        EntryRun(),
        bool(flags & c.RECOVERY_ADD),
        bool(flags & c.HIGH_PRIORITY),
        _PLAIN,
    )


def encode_add_responses(header: int, status: int, ledger_id: int, entry_ids: Sequence[int]) -> bytes:
    """One response for each id, in order."""
    if len(entry_ids) < SHORT_RUN:
        return b"".join([_RESPONSE.pack(_BODY_BYTES, header, status, ledger_id, each) for each in entry_ids])
    block = bytearray(_RESPONSE.pack(_BODY_BYTES, header, status, ledger_id, 0) * len(entry_ids))
    ids = pack(f">{len(entry_ids)}q", *entry_ids)
    for offset in range(8):
        block[_ID_OFFSET + offset :: _RESPONSE.size] = ids[offset::8]
    return bytes(block)


assert ENTRY_OFFSET == 28
