"""Adds of version 3: requests gathered by ledger into runs, as v2_adds.py does, and their responses. Pure.

Java's clients write every add in the same form: fields in one order, no optional ones. Only these bytes are gathered;
what differs (a priority, a flag, another order, a negative id) goes through the codec, frame by frame. A response
repeats the id fields of its request, so they are not decoded.

    0a n                    header of n bytes
      08 03  10 02  18 v    version 3, ADD_ENTRY, transaction id
    aa 06 v                 add request of v bytes
      08 v   10 v           ledger id, entry id: repeated in the response
      1a 14  20 bytes       master key
      22 v   v bytes        the entry; the ids inside it count
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from struct import Struct

from bookie_server.net.receive_buffer import LENGTH
from bookie_server.protocol.requests import AddRun, Adds, Echo, Gathered
from ledger.wire.entry import STORED_BYTES_MIN
from ledger.wire.status import Status, to_v3
from ledger.wire.varint import varint, varint_value

_VARINT = rb"([\x80-\xff]{0,9}[\x00-\x7f])"
_ADD = re.compile(
    rb"\x0a(.)\x08\x03\x10\x02\x18" + _VARINT + rb"\xaa\x06" + _VARINT
    + rb"\x08" + _VARINT + rb"\x10" + _VARINT + rb"\x1a\x14(.{20})\x22" + _VARINT,
    re.DOTALL,
)  # fmt: skip
_IDS = Struct(">qq")


class AddResponses:
    """Encodes the responses to adds from what each of them echoes."""

    def added(self, runs: Sequence[AddRun], status: Status, conflicts: frozenset[int]) -> bytes:
        accepted, refused = varint(to_v3(status)), varint(to_v3(Status.EBADREQ))
        parts: list[bytes] = []
        for run in runs:
            for entry_id, (txn_id, ledger, entry) in zip(run.ids, run.echoes, strict=True):
                code = refused if entry_id in conflicts else accepted
                header = b"\x0a%c\x08\x03\x10\x02\x18%b\x10%b" % (5 + len(txn_id), txn_id, code)
                inner_bytes = 3 + len(code) + len(ledger) + len(entry)
                body = b"\xaa\x06%c\x08%b\x10%b\x18%b" % (inner_bytes, code, ledger, entry)
                parts += (LENGTH.pack(len(header) + len(body)), header, body)
        return b"".join(parts)


RESPONSES = AddResponses()


def gather(block: bytes, position: int, frame_bytes_max: int) -> Gathered:
    """The adds from `position` on, and where the first other frame starts."""
    end, first, match, read_length = len(block), position, _ADD.match, LENGTH.unpack_from
    runs: dict[tuple[int, bytes], tuple[AddRun, list[Echo]]] = {}
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
        _, txn_id, _, echo_ledger, echo_entry, key, _ = found.groups()
        known = runs.get((ledger_id, key))
        if known is None:
            echoes: list[Echo] = []
            known = runs[ledger_id, key] = AddRun(ledger_id, key, False, False, [], [], echoes), echoes
        run, echoes = known
        run.ids.append(entry_id)
        run.entries.append(entry)
        echoes.append(Echo(txn_id, echo_ledger, echo_entry))
        position = stop
    if not runs:
        return None, position
    return Adds([run for run, _ in runs.values()], position - first, RESPONSES), position


def _lengths_agree(found: re.Match[bytes], stop: int) -> bool:
    """Whether header, request and entry end where their lengths say."""
    return (
        found[1][0] == found.end(2) - found.end(1)
        and varint_value(found[3]) == stop - found.end(3)
        and varint_value(found[7]) == stop - found.end(7)
    )
