"""An entry that a writer sent to one bookie before it died: put there directly, past any client."""

from __future__ import annotations

from ledger.model import DigestType
from ledger.wire import v2
from ledger.wire.digest import make_digester, master_key
from ledger.wire.messages import AddRequest, AddResponse
from ledger.wire.status import Status
from tests.helpers.bookie.raw_client import RawClient
from tests.helpers.ledger.appender import payload_of
from tests.helpers.matrix.sides import PASSWORD


def plant_entry(port: int, ledger_id: int, entry_id: int, digest: str) -> None:
    """The next entry of a ledger whose payloads are `payload_of`, stored on the bookie at this port."""
    payload = payload_of(entry_id)
    length = sum(len(payload_of(number)) for number in range(entry_id + 1))
    head = make_digester(DigestType[digest], PASSWORD).header_and_digest(
        ledger_id, entry_id, entry_id - 1, length, (payload,)
    )
    request = AddRequest(master_key=master_key(PASSWORD), entry=head + payload)
    with RawClient(port) as client:
        answer = v2.decode_response(memoryview(client.ask(v2.encode_request(request)))[4:])
    assert isinstance(answer, AddResponse) and answer.status is Status.EOK, answer
