"""Answers with the list of a ledger's entries."""

from __future__ import annotations

from bookie_server.protocol.v3 import Responses
from ledger.model import FRAME_BYTES_MAX
from ledger.wire import v3
from ledger.wire.availability import encode_in_periods
from ledger.wire.messages import ListEntriesRequest, ListEntriesResponse, Operation, V3Request
from ledger.wire.status import Status


def test_the_list_of_a_long_striped_ledger_fits_into_a_frame() -> None:
    """Of two of three bookies for each entry: one run for every three entries."""
    request = V3Request(txn_id=1, operation=Operation.LIST_ENTRIES, body=ListEntriesRequest(ledger_id=7))
    runs = [(start, start + 1) for start in range(0, 3 * FRAME_BYTES_MAX // 24, 3)]
    frame = Responses(request).available(runs)
    assert len(frame) <= FRAME_BYTES_MAX
    body = v3.decode_response(frame[4:]).body
    assert isinstance(body, ListEntriesResponse)
    assert body.availability is not None
    assert bytes(body.availability) == encode_in_periods(runs)

    irregular = [(start * start, start * start) for start in range(2, 2 + FRAME_BYTES_MAX // 10)]
    answer = v3.decode_response(Responses(request).available(irregular)[4:])
    assert answer.status is Status.EIO
