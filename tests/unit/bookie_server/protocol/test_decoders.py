"""Both versions decode to the same requests, and refuse with the codec's bytes."""

from __future__ import annotations

from typing import Any

import pytest

from bookie_server.protocol import v2, v3
from bookie_server.protocol.requests import Adds, Answered, LongPoll, Read, Request, WriteLacs
from ledger.errors import ProtocolError
from ledger.wire import constants as c
from ledger.wire import v2 as codec_v2
from ledger.wire import v3 as codec_v3
from ledger.wire.entry import ENTRY_HEADER
from ledger.wire.messages import (
    AddRequest,
    AddResponse,
    Operation,
    ReadFlag,
    ReadRequest,
    ReadResponse,
    V3AddRequest,
    V3AddResponse,
    V3ReadRequest,
    V3ReadResponse,
    V3Request,
    V3Response,
    WriteLacRequest,
    WriteLacResponse,
)
from ledger.wire.status import Status

KEY = bytes(range(20))
NONE: frozenset[int] = frozenset()


def entry(ledger_id: int, entry_id: int) -> bytes:
    return ENTRY_HEADER.pack(ledger_id, entry_id, entry_id - 1, 7) + b"DIGS" + b"payload"


def decode_v2(frame: bytes) -> Request:
    request = v2.decode(frame, 4, len(frame))
    assert request is not None
    return request


def decode_v3(operation: Operation, body: Any, priority: int | None = None) -> Request:
    frame = codec_v3.encode_request(V3Request(txn_id=300, operation=operation, body=body, priority=priority))
    request = v3.decode(frame, 4, len(frame))
    assert request is not None
    return request


def fields(request: Request) -> tuple[object, ...]:
    """All fields but the encoder, which is the last one."""
    return type(request), *request[:-1]


def test_a_read_is_the_same_request_in_both_versions() -> None:
    expected = (Read, 5, 7, None, False)
    assert fields(decode_v2(codec_v2.encode_request(ReadRequest(ledger_id=5, entry_id=7)))) == expected
    assert fields(decode_v3(Operation.READ_ENTRY, V3ReadRequest(ledger_id=5, entry_id=7))) == expected


def test_a_fencing_read_is_the_same_request_in_both_versions() -> None:
    expected = (Read, 5, -1, KEY, True)
    binary = ReadRequest(ledger_id=5, entry_id=-1, master_key=KEY, flags=c.FENCE)
    assert fields(decode_v2(codec_v2.encode_request(binary))) == expected
    body = V3ReadRequest(ledger_id=5, entry_id=-1, master_key=KEY, flag=ReadFlag.FENCE)
    assert fields(decode_v3(Operation.READ_ENTRY, body)) == expected


def test_a_key_without_a_fence_is_ignored() -> None:
    """Java sends it with plain reads of version 3 too."""
    request = decode_v3(Operation.READ_ENTRY, V3ReadRequest(ledger_id=5, entry_id=7, master_key=KEY))
    assert isinstance(request, Read)
    assert request.fence_key is None


@pytest.mark.parametrize(
    ("timeout_ms", "flag"), [(1500, None), (1500, ReadFlag.PIGGYBACK), (None, ReadFlag.PIGGYBACK)]
)
def test_a_previous_lac_makes_a_long_poll(timeout_ms: int | None, flag: ReadFlag | None) -> None:
    body = V3ReadRequest(ledger_id=5, entry_id=-1, previous_lac=3, timeout_ms=timeout_ms, flag=flag)
    request = decode_v3(Operation.READ_ENTRY, body)
    assert fields(request) == (LongPoll, 5, -1, 3, (timeout_ms or 0) / 1000, flag is not None, False)


@pytest.mark.parametrize("recovery", [False, True])
@pytest.mark.parametrize(("outer_ledger", "outer_entry"), [(5, 7), (6, 0), (-1, -1)])
def test_an_add_outside_a_run_is_answered_as_the_codec_would(
    recovery: bool, outer_ledger: int, outer_entry: int
) -> None:
    """The ids inside the entry count, the outer ones are repeated."""
    body = V3AddRequest(
        ledger_id=outer_ledger, entry_id=outer_entry, master_key=KEY, entry=entry(5, 7), recovery=recovery
    )
    adds = decode_v3(Operation.ADD_ENTRY, body, priority=100)
    assert isinstance(adds, Adds)
    [run] = adds.runs
    assert (run.ledger_id, run.ids, run.recovery, run.priority) == (5, [7], recovery, True)
    assert adds.byte_count == len(entry(5, 7))
    for conflicts, status in ((NONE, Status.EFENCED), (frozenset({7}), Status.EBADREQ)):
        expected = V3Response(
            txn_id=300,
            operation=Operation.ADD_ENTRY,
            status=status,
            body=V3AddResponse(status=status, ledger_id=outer_ledger, entry_id=outer_entry),
        )
        assert adds.encoder.added(adds.runs, Status.EFENCED, conflicts) == codec_v3.encode_response(expected)


@pytest.mark.parametrize("version", [0, 1])
def test_an_add_of_an_older_version_is_answered_in_that_version(version: int) -> None:
    request = AddRequest(version=version, master_key=KEY, entry=entry(5, 7))
    adds = decode_v2(codec_v2.encode_request(request))
    assert isinstance(adds, Adds)
    expected = AddResponse(version=version, status=Status.EOK, ledger_id=5, entry_id=7)
    assert adds.encoder.added(adds.runs, Status.EOK, NONE) == codec_v2.encode_response(expected)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (AddRequest(version=3, master_key=KEY, entry=entry(5, 7)), Status.EBADVERSION),
        (AddRequest(master_key=KEY, entry=entry(5, 7)[:23]), Status.EBADREQ),
        (AddRequest(master_key=KEY, entry=entry(-5, 7)), Status.EBADREQ),
        (AddRequest(master_key=KEY, entry=entry(5, -7)), Status.EBADREQ),
        (ReadRequest(version=3, ledger_id=5, entry_id=7), Status.EBADVERSION),
        (ReadRequest(ledger_id=5, entry_id=-2), Status.EBADREQ),
        (ReadRequest(version=1, ledger_id=5, entry_id=7, flags=c.FENCE), Status.EUA),
    ],
)
def test_the_decoder_of_version_2_refuses(request_: AddRequest | ReadRequest, status: Status) -> None:
    answered = decode_v2(codec_v2.encode_request(request_))
    response = AddResponse if isinstance(request_, AddRequest) else ReadResponse
    expected = response(
        version=request_.version, status=status, ledger_id=request_.ledger_id, entry_id=request_.entry_id
    )
    assert answered == Answered(codec_v2.encode_response(expected))


@pytest.mark.parametrize(
    ("operation", "body", "status", "response"),
    [
        (
            Operation.ADD_ENTRY,
            V3AddRequest(ledger_id=5, entry_id=7, master_key=b"short", entry=entry(5, 7)),
            Status.EBADREQ,
            V3AddResponse(status=Status.EBADREQ, ledger_id=5, entry_id=7),
        ),
        (
            Operation.ADD_ENTRY,
            V3AddRequest(ledger_id=5, entry_id=7, master_key=KEY, entry=entry(5, -7)),
            Status.EBADREQ,
            V3AddResponse(status=Status.EBADREQ, ledger_id=5, entry_id=7),
        ),
        (
            Operation.READ_ENTRY,
            V3ReadRequest(ledger_id=5, entry_id=-2),
            Status.EBADREQ,
            V3ReadResponse(status=Status.EBADREQ, ledger_id=5, entry_id=-2),
        ),
        (
            Operation.READ_ENTRY,
            V3ReadRequest(ledger_id=5, entry_id=7, flag=ReadFlag.FENCE),
            Status.EUA,
            V3ReadResponse(status=Status.EUA, ledger_id=5, entry_id=7),
        ),
        (
            Operation.WRITE_LAC,
            WriteLacRequest(ledger_id=5, lac=3, master_key=b"short", packet=bytes(16)),
            Status.EBADREQ,
            WriteLacResponse(status=Status.EBADREQ, ledger_id=5),
        ),
    ],
)
def test_the_decoder_of_version_3_refuses(
    operation: Operation, body: Any, status: Status, response: Any
) -> None:
    expected = V3Response(txn_id=300, operation=operation, status=status, body=response)
    assert decode_v3(operation, body) == Answered(codec_v3.encode_response(expected))


def test_a_lac_write_by_hand_and_by_the_codec_are_one_request_with_one_response() -> None:
    """With a priority the request is left to the codec."""
    body = WriteLacRequest(ledger_id=5, lac=3, master_key=KEY, packet=bytes(36))
    request = V3Request(txn_id=300, operation=Operation.WRITE_LAC, body=body)
    block = codec_v3.encode_request(request)
    plain, position = v3.gather(block, 0, len(block))
    with_priority = decode_v3(Operation.WRITE_LAC, body, 100)
    assert isinstance(plain, WriteLacs)
    assert isinstance(with_priority, WriteLacs)
    assert position == len(block)
    [lac] = plain.lacs
    assert with_priority.lacs == [lac]
    assert (lac.ledger_id, lac.key, lac.packet) == (5, KEY, bytes(36))
    refused = WriteLacResponse(status=Status.EIO, ledger_id=5)
    answer = V3Response(txn_id=300, operation=Operation.WRITE_LAC, status=Status.EIO, body=refused)
    assert plain.encoder.written(plain.lacs, Status.EIO) == codec_v3.encode_response(answer)
    assert with_priority.encoder.written([lac], Status.EIO) == codec_v3.encode_response(answer)


def test_a_negative_ledger_id_in_a_lac_write_is_repeated_as_the_codec_would() -> None:
    body = WriteLacRequest(ledger_id=-5, lac=3, master_key=KEY, packet=bytes(36))
    request = decode_v3(Operation.WRITE_LAC, body)
    assert isinstance(request, WriteLacs)
    refused = WriteLacResponse(status=Status.EBADREQ, ledger_id=-5)
    answer = V3Response(txn_id=300, operation=Operation.WRITE_LAC, status=Status.EBADREQ, body=refused)
    assert request.encoder.written(request.lacs, Status.EBADREQ) == codec_v3.encode_response(answer)


def test_other_bytes_are_no_request_of_version_3_and_end_version_2() -> None:
    block = b"\x00\x00\x00\x02\xff\xff"
    assert v3.decode(block, 4, 6) is None
    with pytest.raises(ProtocolError):
        v2.decode(block, 4, 6)
