"""Adds of a copy: one piece for each part, and no more bytes without an answer than the window has."""

from __future__ import annotations

import asyncio

import pytest

from ledger.model import BookieId, DigestType, EntryId, Fragment, LedgerId, LedgerMetadata, QuorumSizes
from ledger.repair.copying.source import Part
from ledger.repair.copying.target import Target
from ledger.repair.errors import CopyFailedError
from ledger.transport.v2_connection import V2Connection
from ledger.wire import v2
from ledger.wire.constants import VERSION
from ledger.wire.digest import make_digester, master_key
from ledger.wire.frame import FrameSplitter
from ledger.wire.messages import AddRequest, AddResponse
from ledger.wire.status import Status
from tests.helpers.wire.silent_transport import BOOKIE, RecordingTransport

_LEDGER = LedgerId(7)
_METADATA = LedgerMetadata(
    quorum=QuorumSizes(ensemble=1, write=1, ack=1),
    fragments=(Fragment(EntryId(0), (BookieId("a:1"),)),),
    digest_type=DigestType.CRC32C,
    password=b"secret",
)
_WINDOW = 3000


def _part(*entry_ids: int) -> Part:
    digester = make_digester(_METADATA.digest_type, _METADATA.password)
    payload = bytes(1000)
    return Part(
        entry_ids,
        [digester.header_and_digest(_LEDGER, each, 3, 99, (payload,)) + payload for each in entry_ids],
    )


def _target() -> tuple[Target, V2Connection, RecordingTransport]:
    connection, transport = V2Connection(BOOKIE, 1 << 20, 1 << 20), RecordingTransport()
    connection.connection_made(transport)  # type: ignore[arg-type]
    return Target(connection, _LEDGER, _METADATA, window_bytes=_WINDOW, timeout_s=5.0), connection, transport


def _answer(connection: V2Connection, *entry_ids: int, status: Status = Status.EOK) -> None:
    for each in entry_ids:
        response = AddResponse(version=VERSION, status=status, ledger_id=_LEDGER, entry_id=each)
        connection.data_received(v2.encode_response(response))


async def test_a_part_leaves_in_one_piece_as_it_was_read() -> None:
    target, connection, transport = _target()
    with target:
        part = _part(4, 5)
        await target.add(part)
        await asyncio.sleep(0)
        [sent] = transport.sent
        found = [v2.decode_request(body) for body in FrameSplitter().feed(sent)]
        assert [bytes(each.entry) for each in found if isinstance(each, AddRequest)] == part.entries
        for each in found:
            assert isinstance(each, AddRequest)
            assert (each.master_key, each.recovery) == (master_key(b"secret"), True)
        finishing = asyncio.ensure_future(target.finish())
        _answer(connection, 4)
        await asyncio.sleep(0)
        assert not finishing.done()
        _answer(connection, 5)
        await finishing


async def test_more_bytes_than_the_window_wait_for_answers_in_any_order() -> None:
    target, connection, _ = _target()
    with target:
        adding = asyncio.ensure_future(target.add(_part(0, 3, 6, 9)))
        await asyncio.sleep(0.01)
        assert not adding.done()
        target.on_scattered_adds_acked([9, 3])
        await adding
        _answer(connection, 3, 0)
        _answer(connection, 6)
        await target.finish()


async def test_a_refusal_and_a_lost_connection_end_the_copy() -> None:
    for end in (
        lambda connection: _answer(connection, 1, status=Status.EREADONLY),
        lambda connection: connection.give_up("it is over"),
    ):
        target, connection, _ = _target()
        with target:
            await target.add(_part(1))
            end(connection)
            with pytest.raises(CopyFailedError):
                await target.finish()
