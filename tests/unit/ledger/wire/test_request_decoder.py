"""How one connection is told to be v2 or v3."""

import pytest

from ledger.errors import ProtocolError
from ledger.wire import v2, v3
from ledger.wire.messages import Operation, ReadLacRequest, ReadRequest, V3Request
from ledger.wire.request_decoder import RequestDecoder

V2_READ = ReadRequest(ledger_id=1, entry_id=2)
V3_READ_LAC = V3Request(txn_id=5, operation=Operation.READ_LAC, body=ReadLacRequest(ledger_id=1))
V2_BODY = v2.encode_request(V2_READ)[4:]
V3_BODY = v3.encode_request(V3_READ_LAC)[4:]


def test_v3_then_v2_on_one_connection_works() -> None:
    decoder = RequestDecoder()
    assert [decoder.decode(body) for body in (V3_BODY, V3_BODY, V2_BODY, V2_BODY)] == [
        V3_READ_LAC,
        V3_READ_LAC,
        V2_READ,
        V2_READ,
    ]


def test_v3_after_v2_is_refused() -> None:
    decoder = RequestDecoder()
    decoder.decode(V2_BODY)
    with pytest.raises(ProtocolError):
        decoder.decode(V3_BODY)


def test_v2_packet_of_version_10_is_tried_as_v3_and_read_as_v2() -> None:
    """Its first byte is that of a v3 request; the bookie answers EBADVERSION to it."""
    body = v2.encode_request(ReadRequest(ledger_id=1, entry_id=2, version=10))[4:]
    message = RequestDecoder().decode(body)
    assert isinstance(message, ReadRequest)
    assert message.version == 10


def test_frame_that_is_neither_is_refused_and_leaves_v2() -> None:
    decoder = RequestDecoder()
    with pytest.raises(ProtocolError):
        decoder.decode(bytes.fromhex("0a070803106318a001"))
    assert decoder.speaks_v2


@pytest.mark.parametrize("body", [b"", b"\x02", b"\x0a", bytes(3), b"\xff" * 40])
def test_stray_bytes_are_refused(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        RequestDecoder().decode(body)
