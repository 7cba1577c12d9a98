"""The protobuf protocol against frames of Apache BookKeeper 4.18.0, and what liberties a peer may take."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import ProtocolError
from ledger.wire import bookkeeper_pb2 as pb
from ledger.wire import messages as m
from ledger.wire import v3
from ledger.wire.auth import decode_auth
from ledger.wire.messages import Operation, V3Request, V3Response
from ledger.wire.status import Status
from ledger.wire.varint import varint
from tests.helpers.wire.codecs import decode, encode, well_formed
from tests.helpers.wire.golden_frames import GoldenFrame, wire_frames

WELL_FORMED = [golden for golden in wire_frames("v3") if well_formed(golden)]
MALFORMED = [golden for golden in wire_frames("v3") if not well_formed(golden)]
OUR_NAMES = {
    "ledgerId": "ledger_id",
    "entryId": "entry_id",
    "masterKey": "master_key",
    "previousLAC": "previous_lac",
    "timeOut": "timeout_ms",
    "maxLAC": "max_lac",
    "lacUpdateTimestamp": "lac_update_ms",
    "writeFlags": "write_flags",
    "lac": "lac",
    "lacBody": "lac_packet",
    "lastEntryBody": "last_entry",
    "requested": "requested",
    "totalDiskCapacity": "total_bytes",
    "freeDiskSpace": "free_bytes",
    "availabilityOfEntriesOfLedger": "availability",
    "authPluginName": "plugin_name",
    "payload": "payload",
}
WITH_CONTEXT = "read_with_context/request"
OPERATIONS = {"GET_LIST_OF_ENTRIES_OF_LEDGER": "LIST_ENTRIES"}


@pytest.mark.parametrize("golden", [each for each in WELL_FORMED if each.name != WITH_CONTEXT], ids=str)
def test_golden_frame_comes_out_byte_for_byte(golden: GoldenFrame) -> None:
    assert encode(golden, decode(golden, golden.body)) == golden.frame


@pytest.mark.parametrize("golden", WELL_FORMED, ids=str)
def test_golden_frame_means_what_was_recorded(golden: GoldenFrame) -> None:
    message, recorded = decode(golden, golden.body), golden.meaning["protobuf"]
    header = recorded["header"]
    assert message.txn_id == header["txnId"]
    assert message.operation.name == OPERATIONS.get(header["operation"], header["operation"])
    assert message.priority == header.get("priority")
    if "status" in recorded:
        assert message.status.name == recorded["status"]
    bodies = [value for name, value in recorded.items() if name.endswith(("Request", "Response"))]
    assert len(bodies) == (message.body is not None)
    for name, value in bodies[0].items() if bodies else ():
        if name in OUR_NAMES:
            ours = getattr(message.body, OUR_NAMES[name])
            assert (ours.hex() if isinstance(ours, bytes) else ours) == value


@pytest.mark.parametrize("golden", MALFORMED, ids=str)
def test_frame_on_which_a_bookie_closes_is_a_protocol_error(golden: GoldenFrame) -> None:
    with pytest.raises(ProtocolError):
        decode(golden, golden.body)


def test_there_are_golden_frames_of_every_message_and_status() -> None:
    """Guards against a vectors file that lost its content: all the tests above would pass on an empty one."""
    messages = [(golden.is_request, decode(golden, golden.body)) for golden in WELL_FORMED]
    served = set(Operation) - {
        Operation.RANGE_READ_ENTRY,
        Operation.RANGE_ADD_ENTRY,
        Operation.BATCH_READ_ENTRY,
    }
    for is_request in (True, False):
        seen = {message.operation for asked, message in messages if asked is is_request and message.body}
        assert seen == served
    assert {message.status for asked, message in messages if not asked} == set(Status)


def test_flag_goes_first_and_any_order_is_understood() -> None:
    """Java writes field 100 before fields 1 to 5; protobuf libraries write it last."""
    ours = V3Request(
        txn_id=3,
        operation=Operation.READ_ENTRY,
        body=m.V3ReadRequest(ledger_id=1, entry_id=-1, master_key=bytes(20), flag=m.ReadFlag.FENCE),
    )
    body = v3.encode_request(ours)[4:]
    assert body[11:14] == bytes.fromhex("a00601")
    parsed = pb.Request()
    parsed.ParseFromString(body)
    reordered = parsed.SerializeToString()
    assert reordered != body
    assert v3.decode_request(reordered) == ours


def test_unknown_fields_are_accepted_and_dropped() -> None:
    """A newer client may send more than we know: field 999 of the envelope and of the message inside."""
    unknown = bytes.fromhex("ba3e0161")
    inner = bytes.fromhex("08011000") + unknown
    body = bytes.fromhex("0a06080310011802a206") + bytes((len(inner),)) + inner + unknown
    request = v3.decode_request(body)
    assert request.body == m.V3ReadRequest(ledger_id=1, entry_id=0)
    assert v3.encode_request(request)[4:] == bytes.fromhex("0a06080310011802a2060408011000")


def test_the_callers_logging_context_is_dropped_undecoded() -> None:
    """Its key and value are as Java sends them, or missing, or no text."""
    plain = bytes.fromhex("0a06080310011802a2060408011000")
    for context in ("c20c060a016b120176", "c20c00", "c20c060a02fffe1200"):
        assert v3.decode_request(plain + bytes.fromhex(context)) == v3.decode_request(plain)


def test_unknown_flag_value_is_a_read_without_flag() -> None:
    body = bytes.fromhex("0a06080310011802a20607a0060908011000")
    assert v3.decode_request(body).body == m.V3ReadRequest(ledger_id=1, entry_id=0)


@pytest.mark.parametrize("operation", [3, 4, 12])
def test_operation_without_a_message_is_decoded_to_be_answered(operation: int) -> None:
    """The bookie answers EBADREQ to these, so they are no protocol error."""
    request = v3.decode_request(bytes((0x0A, 6, 8, 3, 0x10, operation, 0x18, 5)))
    assert (request.operation, request.body) == (operation, None)


@pytest.mark.parametrize("version", [1, 2])
def test_older_version_is_decoded_to_be_answered(version: int) -> None:
    request = v3.decode_request(bytes.fromhex(f"0a0608{version:02x}10011802a2060408011000"))
    assert request.version == version


def test_bookie_info_may_come_without_its_message() -> None:
    assert v3.decode_request(bytes.fromhex("0a06080310081807")).body is None


@pytest.mark.parametrize("operation", [1, 2, 5, 6, 7, 10, 11])
def test_operation_without_its_own_message_is_refused(operation: int) -> None:
    with pytest.raises(ProtocolError, match="lacks its"):
        v3.decode_request(bytes((0x0A, 6, 8, 3, 0x10, operation, 0x18, 5)))


def test_text_that_is_not_utf8_is_refused() -> None:
    plugin = bytes.fromhex("0a06080310051801b206060a02fffe1200")
    with pytest.raises(ProtocolError):
        v3.decode_request(plugin)


def test_an_error_does_not_repeat_what_a_peer_sent() -> None:
    """It is logged: a name of the size of a frame would be a line of four times that."""
    name = b"\xff" * 1_000_000
    with pytest.raises(ProtocolError) as refused:
        decode_auth(b"\x0a" + varint(len(name)) + name + b"\x12\x00")
    assert len(str(refused.value)) < 200


def test_response_with_an_unknown_inner_status_is_refused() -> None:
    body = bytes.fromhex("0a06080310021801" + "1000" + "aa0606" + "086310011800")
    with pytest.raises(ProtocolError, match="status"):
        v3.decode_response(body)


def test_deeply_nested_groups_are_refused() -> None:
    with pytest.raises(ProtocolError):
        v3.decode_request(b"\x0b" * 100_000)


def test_outer_error_outweighs_the_inner_status() -> None:
    inner = m.WriteLacResponse(status=Status.EUA, ledger_id=1)
    outer_ok = V3Response(txn_id=1, operation=Operation.WRITE_LAC, status=Status.EOK, body=inner)
    outer_bad = V3Response(txn_id=1, operation=Operation.WRITE_LAC, status=Status.EIO, body=inner)
    bare = V3Response(txn_id=1, operation=Operation.WRITE_LAC, status=Status.EBADREQ)
    assert (outer_ok.outcome, outer_bad.outcome, bare.outcome) == (Status.EUA, Status.EIO, Status.EBADREQ)


# ---- any message there and back

longs = st.integers(-(2**63), 2**63 - 1)
blobs = st.binary(max_size=40)
statuses = st.sampled_from(Status)
maybe_long = st.none() | longs


def _request_bodies() -> dict[Operation, st.SearchStrategy[Any]]:
    ledger = st.builds
    return {
        Operation.READ_ENTRY: st.builds(
            m.V3ReadRequest,
            ledger_id=longs,
            entry_id=longs,
            master_key=st.none() | blobs,
            previous_lac=maybe_long,
            timeout_ms=maybe_long,
            flag=st.none() | st.sampled_from(m.ReadFlag),
        ),
        Operation.ADD_ENTRY: st.builds(
            m.V3AddRequest,
            ledger_id=longs,
            entry_id=longs,
            master_key=blobs,
            entry=blobs,
            write_flags=st.none() | st.integers(-(2**31), 2**31 - 1),
            recovery=st.booleans(),
        ),
        Operation.AUTH: st.builds(m.AuthMessage, plugin_name=st.text(max_size=10), payload=blobs),
        Operation.WRITE_LAC: st.builds(
            m.WriteLacRequest, ledger_id=longs, lac=longs, master_key=blobs, packet=blobs
        ),
        Operation.READ_LAC: ledger(m.ReadLacRequest, ledger_id=longs),
        Operation.GET_BOOKIE_INFO: st.none() | st.builds(m.BookieInfoRequest, requested=maybe_long),
        Operation.START_TLS: st.builds(m.StartTlsRequest),
        Operation.FORCE_LEDGER: ledger(m.ForceLedgerRequest, ledger_id=longs),
        Operation.LIST_ENTRIES: ledger(m.ListEntriesRequest, ledger_id=longs),
        Operation.BATCH_READ_ENTRY: st.none(),
    }


def _response_bodies() -> dict[Operation, st.SearchStrategy[Any]]:
    return {
        Operation.READ_ENTRY: st.builds(
            m.V3ReadResponse,
            status=statuses,
            ledger_id=longs,
            entry_id=longs,
            entry=st.none() | blobs,
            max_lac=maybe_long,
            lac_update_ms=maybe_long,
        ),
        Operation.ADD_ENTRY: st.builds(m.V3AddResponse, status=statuses, ledger_id=longs, entry_id=longs),
        Operation.AUTH: st.builds(m.AuthMessage, plugin_name=st.text(max_size=10), payload=blobs),
        Operation.WRITE_LAC: st.builds(m.WriteLacResponse, status=statuses, ledger_id=longs),
        Operation.READ_LAC: st.builds(
            m.ReadLacResponse,
            status=statuses,
            ledger_id=longs,
            lac_packet=st.none() | blobs,
            last_entry=st.none() | blobs,
        ),
        Operation.GET_BOOKIE_INFO: st.builds(
            m.BookieInfoResponse, status=statuses, total_bytes=maybe_long, free_bytes=maybe_long
        ),
        Operation.START_TLS: st.builds(m.StartTlsResponse),
        Operation.FORCE_LEDGER: st.builds(m.ForceLedgerResponse, status=statuses, ledger_id=longs),
        Operation.LIST_ENTRIES: st.builds(
            m.ListEntriesResponse, status=statuses, ledger_id=longs, availability=st.none() | blobs
        ),
    }


@given(st.data())
def test_any_request_survives_the_way_there(data: st.DataObject) -> None:
    bodies = _request_bodies()
    operation = data.draw(st.sampled_from(list(bodies)))
    message = V3Request(
        txn_id=data.draw(st.integers(0, 2**64 - 1)),
        operation=operation,
        body=data.draw(bodies[operation]),
        priority=data.draw(st.none() | st.integers(0, 2**32 - 1)),
        version=data.draw(st.sampled_from([1, 2, 3])),
    )
    assert v3.decode_request(v3.encode_request(message)[4:]) == message


@given(st.data())
def test_any_response_survives_the_way_there(data: st.DataObject) -> None:
    bodies = _response_bodies()
    operation = data.draw(st.sampled_from(list(bodies)))
    message = V3Response(
        txn_id=data.draw(st.integers(0, 2**64 - 1)),
        operation=operation,
        status=data.draw(statuses),
        body=data.draw(st.none() | bodies[operation]),
        priority=data.draw(st.none() | st.integers(0, 2**32 - 1)),
    )
    assert v3.decode_response(v3.encode_response(message)[4:]) == message


@given(st.binary(max_size=120))
def test_garbage_is_a_protocol_error_or_a_message(body: bytes) -> None:
    for prefix in (b"", bytes.fromhex("0a06080310011802"), bytes.fromhex("0a060803100718021000")):
        for decode_body, encode_message in (
            (v3.decode_request, v3.encode_request),
            (v3.decode_response, v3.encode_response),
        ):
            try:
                message: Any = decode_body(prefix + body)
            except ProtocolError:
                continue
            assert decode_body(encode_message(message)[4:]) == message
