"""Entries and messages of a newer version are refused with a sentence: where, which version, what is understood.

They are put after the last entry of a log in a copy of a golden set, with right digests, by the bookie's protocol.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from dlog.client import connect
from ledger.wire.digest import Crc32cDigester
from ledger.wire.status import Status
from tests.helpers.bookie.entries import add, add_answer, read, read_answer
from tests.helpers.bookie.raw_client import RawClient
from tests.helpers.golden.sets import golden_sets
from tests.helpers.ledger.appender import client_of
from tests.helpers.processes.command import Command

pytestmark = pytest.mark.integration

ENVELOPE_BYTES = 27


def newer_envelope(entry: bytearray) -> None:
    entry[0] += 1


def unknown_flag(entry: bytearray) -> None:
    entry[1] |= 0x80


def unknown_codec(entry: bytearray) -> None:
    entry[2] = 3


def newer_message(entry: bytearray) -> None:
    entry[ENVELOPE_BYTES] += 1


def unknown_attribute(entry: bytearray) -> None:
    entry[ENVELOPE_BYTES + 1] = 1


NEWER: list[tuple[Callable[[bytearray], None], tuple[str, ...]]] = [
    (newer_envelope, ("entry has format version 2", "this program reads version 1", "upgrade dlog")),
    (unknown_flag, ("entry has flags 0x80", "version 1 defines only 0x07", "a newer version")),
    (unknown_codec, ("entry has codec 3", "this program supports 0 to 2", "upgrade dlog")),
    (newer_message, ("message 0 has magic 2", "this program reads magic 1", "a newer version")),
    (unknown_attribute, ("message 0 has attr 1", "magic 1 defines no such flag", "a newer version")),
]


@dataclass(frozen=True, slots=True)
class Copy:
    dlog: Command
    ledger_id: int
    first_newer: int
    """The entry id of the first of NEWER; the others follow."""
    before: list[str]
    """What was read before."""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    uri, bookie = golden_sets()[-1].sqlite(tmp_path_factory.mktemp("golden"))
    bookie.start()
    dlog = Command(uri)
    before = dlog.here("read", "orders").must_succeed().splitlines()
    ledger_id, last_entry = asyncio.run(last_entry_of("orders", uri))
    with RawClient(bookie.port) as connection:
        stored = bytes(read_answer(connection.ask(read(ledger_id, last_entry))).entry or b"")
        payload = stored[Crc32cDigester().overhead_bytes :]
        assert payload[:3] == b"\xd1\0\0" and payload[ENVELOPE_BYTES:][:2] == b"\1\0"
        for number, (change, _) in enumerate([*NEWER, (bytearray.copy, ())], last_entry + 1):
            entry = bytearray(payload)
            change(entry)
            added = add_answer(connection.ask(add(ledger_id, number, bytes(entry), recovery=True)))
            assert added.status is Status.EOK
    yield Copy(dlog, ledger_id, last_entry + 1, before)
    bookie.stop()


async def last_entry_of(log: str, uri: str) -> tuple[int, int]:
    """Its writer was killed, so its last ledger is open."""
    async with connect(uri) as client, client_of(uri) as ledgers:
        ledger_id = (await client.describe(log)).record.ledger_ids[-1]
        handle = await ledgers.open(ledger_id)
        return ledger_id, await handle.refresh()


@pytest.mark.parametrize("number", range(len(NEWER)), ids=lambda number: NEWER[number][0].__name__)
def test_a_reader_that_comes_to_it_is_refused(copy: Copy, number: int) -> None:
    entry_id = copy.first_newer + number
    refused = copy.dlog.here("read", "orders", "--from", f"{copy.ledger_id}:{entry_id}:0")
    sentence = refused.must_fail(1, f"entry {entry_id} of ledger {copy.ledger_id}, log default/orders: ")
    assert all(part in sentence for part in NEWER[number][1]), sentence


def test_what_is_before_it_is_returned(copy: Copy) -> None:
    refused = copy.dlog.here("read", "orders")
    assert refused.code == 1
    assert f"entry {copy.first_newer} of ledger {copy.ledger_id}, log default/orders: " in refused.err
    found = refused.out.splitlines()
    assert found == copy.before
