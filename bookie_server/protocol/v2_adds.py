"""Adds of version 2: requests gathered by ledger into runs, and their responses. Pure.

Adds that arrived together are one request, with a run for each ledger, which the storage takes in one call. Ledgers
may be interleaved, which costs one look-up per entry. A frame that is not a well-formed add of version 2 ends the
gathering, so that adds and fences stay in the order they were sent.

    offset  size  field of an add request (docs/bookkeeper.md#v2-frames)
    0       4     length of what follows
    4       32    header, master key, ledger id: the same in all adds of one run
    36      8     entry id
    28      n     the entry as stored; it begins with the two ids

A response is 28 bytes: length 24, header, status, ledger id, entry id (docs/bookkeeper.md#matching-v2-responses).
It ends as its entry begins, so the responses to short runs are the beginnings of their entries, joined by what comes
before the ids. Those of a long run differ only in the last eight bytes: they are one template, repeated, with the ids
laid over it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct, pack
from typing import NamedTuple

from bookie_server.net.receive_buffer import LENGTH
from bookie_server.protocol.requests import AddRun, Adds, Gathered
from bookie_server.storage.stored_entry import StoredEntry
from ledger.wire import constants as c
from ledger.wire.entry import STORED_BYTES_MIN
from ledger.wire.status import Status

START = Struct(">I32sq")
ENTRY_OFFSET = c.ADD_REQUEST_START.size
BODY_BYTES_MIN = ENTRY_OFFSET - LENGTH.size + STORED_BYTES_MIN
VIEW_BYTES_MIN = 16 * 1024
"""Larger entries are kept as views of the block. A small one is cheaper to copy, and the copy frees the block."""

_HEAD = Struct(">BBH20sq")
"""What all adds of a run begin with: version, opcode, flags, master key, ledger id."""
_RESPONSE = c.ADD_RESPONSE
_RESPONSE_START = Struct(">III")
"""length, header, status: what comes before the ids."""
_BODY_BYTES = c.ADD_RESPONSE_BODY_BYTES
_ID_OFFSET = _RESPONSE.size - 8
_IDS_BYTES = 16
SHORT_RUN = 32
"""Below it, a slice of each entry is faster than eight strided copies."""


class AddResponses(NamedTuple):
    """Encodes the responses to adds of one version."""

    header: int

    def added(self, runs: Sequence[AddRun], status: Status, conflicts: frozenset[int]) -> bytes:
        blocks: list[bytes] = []
        short: list[StoredEntry] = []
        for run in runs:
            if conflicts:
                for entry_id, entry in zip(run.ids, run.entries, strict=True):
                    its_status = Status.EBADREQ if entry_id in conflicts else status
                    blocks.append(encode_short_run(self.header, its_status, [entry]))
            elif len(run.ids) < SHORT_RUN:
                short += run.entries
            else:
                blocks.append(encode_long_run(self.header, status, run.ledger_id, run.ids))
        blocks.append(encode_short_run(self.header, status, short))
        return b"".join(blocks)


_PLAIN = AddResponses(c.ADD_HEADER)


def gather(block: bytes, position: int, frame_bytes_max: int) -> Gathered:
    """The adds from `position` on, and where the first other frame starts."""
    runs: dict[bytes, AddRun] = {}
    view, end, start = memoryview(block), len(block), position
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
                run = _run_of(head)
                if run is None:
                    break
                runs[head] = run
            current, put_id, put_entry = head, run.ids.append, run.entries.append
        put_id(entry_id)
        put_entry(block[position + 28 : stop] if length < VIEW_BYTES_MIN else view[position + 28 : stop])
        position = stop
    return (Adds(list(runs.values()), position - start, _PLAIN) if runs else None), position


def _run_of(head: bytes) -> AddRun | None:
    """An empty run of the adds that begin with `head`. None unless they are adds of version 2 with a ledger id that is
    not negative. Other versions are rare and take the slow path.
    """
    version, opcode, flags, key, ledger_id = _HEAD.unpack(head)
    if version != c.VERSION or opcode != c.ADD or ledger_id < 0:
        return None
    return AddRun(ledger_id, key, flags & c.RECOVERY_ADD != 0, flags & c.HIGH_PRIORITY != 0, [], [], ())


def encode_short_run(header: int, status: int, entries: Iterable[StoredEntry]) -> bytes:
    """One response for each entry, in order."""
    start = _RESPONSE_START.pack(_BODY_BYTES, header, status)
    ids = [entry[:_IDS_BYTES] for entry in entries]
    return start + start.join(ids) if ids else b""


def encode_long_run(header: int, status: int, ledger_id: int, entry_ids: Sequence[int]) -> bytes:
    """One response for each id of a ledger, in order."""
    block = bytearray(_RESPONSE.pack(_BODY_BYTES, header, status, ledger_id, 0) * len(entry_ids))
    ids = pack(f">{len(entry_ids)}q", *entry_ids)
    for offset in range(8):
        block[_ID_OFFSET + offset :: _RESPONSE.size] = ids[offset::8]
    return bytes(block)


assert ENTRY_OFFSET == 28
