"""Explicit LACs of version 3: WRITE_LAC requests that arrived together, and their responses. Pure.

Each strict append ends with one, and with many logs they come in blocks, one for each ledger. Only the form in which
Java and we write them is gathered (ledger/wire/write_lac.py); what differs goes through the codec, frame by frame.
"""

from __future__ import annotations

from collections.abc import Sequence

from bookie_server.net.receive_buffer import LENGTH
from bookie_server.protocol.requests import Gathered, WriteLacs
from ledger.wire.status import Status, to_v3
from ledger.wire.write_lac import WrittenLac, lac_answers, written_lac


class LacResponses:
    """Encodes the responses to explicit LACs."""

    def written(self, lacs: Sequence[WrittenLac], status: Status) -> bytes:
        return lac_answers(lacs, to_v3(status))


RESPONSES = LacResponses()


def gather(block: bytes, position: int, frame_bytes_max: int) -> Gathered:
    """The explicit LACs from `position` on, and where the first other frame starts."""
    end, read_length = len(block), LENGTH.unpack_from
    lacs: list[WrittenLac] = []
    while end - position >= LENGTH.size:
        (length,) = read_length(block, position)
        start = position + LENGTH.size
        stop = start + length
        if stop > end or LENGTH.size + length > frame_bytes_max:
            break
        lac = written_lac(block, start, stop)
        if lac is None:
            break
        lacs.append(lac)
        position = stop
    return (WriteLacs(lacs, RESPONSES) if lacs else None), position
