"""What earlier releases left is opened by this one: every ledger, log and cookie, served by a real bookie."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bookie_server.disk.system_disk import SystemDisk
from bookie_server.storage.index import Index
from bookie_server.storage.segments.places import is_segment
from dlog.client import connect
from dlog.config import LogConfig
from ledger.model import LedgerId, QuorumSizes
from tests.helpers.golden.contents import PASSWORD, contents_of
from tests.helpers.golden.sets import BOOKIE_ID, GoldenSet, golden_sets
from tests.helpers.ledger.appender import client_of
from tests.helpers.processes.bookie import BookieProcess
from tests.helpers.processes.command import Command, bookie
from tests.helpers.processes.zookeeper import ZooKeeperProcess

pytestmark = pytest.mark.integration

SETS = golden_sets()


@dataclass(frozen=True, slots=True)
class Opened:
    uri: str
    bookie: BookieProcess
    home: Path
    expected: dict[str, Any]


@pytest.fixture(params=SETS, ids=lambda found: found.release)
def golden(request: pytest.FixtureRequest) -> GoldenSet:
    found: GoldenSet = request.param
    return found


@pytest.fixture(params=["sqlite", "zookeeper"])
def opened(request: pytest.FixtureRequest, golden: GoldenSet, tmp_path: Path) -> Iterator[Opened]:
    """A copy with its bookie started."""
    if request.param == "sqlite":
        uri, process = golden.sqlite(tmp_path)
    else:
        server: ZooKeeperProcess = request.getfixturevalue("zookeeper")
        uri, process = golden.zookeeper(tmp_path, server.address, server.new_root())
    process.start()
    yield Opened(uri, process, tmp_path, golden.manifest[request.param])
    process.stop()


def test_every_ledger_log_and_cookie_is_read_back(opened: Opened) -> None:
    expected = {name: value for name, value in opened.expected.items() if name != "home"}
    assert len(expected["ledgers"]) > 10
    assert contents_of(opened.uri, deleted=expected["deleted"]) == expected


def test_a_writer_takes_the_log_over_and_appends(opened: Opened) -> None:
    async def append() -> None:
        config = LogConfig(quorum=QuorumSizes(ensemble=1, write=1, ack=1))
        async with (
            connect(opened.uri, config=config) as client,
            client.open_writer("orders") as writer,
        ):
            await writer.append(b"of today", key=b"new")

    dlog = Command(opened.uri)
    before = dlog.here("read", "orders").must_succeed().splitlines()
    asyncio.run(append())
    after = dlog.here("read", "orders").must_succeed().splitlines()
    assert after[:-1] == before
    assert after[-1].endswith("of today")


def test_ledgers_that_were_left_open_are_recovered_and_stay_fenced(opened: Opened) -> None:
    """The explicit LAC of each was in the journal; what was recovered before is closed."""

    async def recover() -> None:
        states = {"OPEN": 0, "IN_RECOVERY": 0}
        async with client_of(opened.uri) as client:
            for name, before in opened.expected["ledgers"].items():
                if before["custom"] != ["made-by"] or before["state"] == "CLOSED":
                    continue
                handle = await client.open_with_recovery(LedgerId(int(name)), PASSWORD)
                assert handle.metadata.last_entry + 1 >= before["readable"] > 0
                states[before["state"]] += 1
        assert min(states.values()) > 0, states

    asyncio.run(recover())


def test_the_tools_read_it(opened: Opened) -> None:
    listed = bookie("ls", "--metadata", opened.uri).must_succeed()
    assert BOOKIE_ID in listed
    assert "free bytes" in bookie("info", f"127.0.0.1:{opened.bookie.port}").must_succeed()
    assert "orders" in Command(opened.uri).here("ls").must_succeed()
    ledgers = Command(opened.uri).here("ledgers", "orders").must_succeed()
    assert len(ledgers.splitlines()) > 2
    opened.bookie.kill()
    data = str(opened.bookie.data)
    assert "fence" in bookie("read-journal", "--data", data).must_succeed().lower()
    assert BOOKIE_ID in bookie("info", "--data", data).must_succeed()
    bookie("rebuild-index", "--data", data).must_succeed()
    opened.bookie.start()
    expected = {name: value for name, value in opened.expected.items() if name != "home"}
    assert contents_of(opened.uri, deleted=expected["deleted"]) == expected


def test_a_bookie_that_wrote_entries_twice_begins_to_write_them_once_and_may_go_back(tmp_path: Path) -> None:
    """Its index gets version 2 without being asked, and keeps it."""
    [golden] = [each for each in SETS if each.release == "0.1.0"]
    uri, process = golden.sqlite(tmp_path)
    expected = {name: value for name, value in golden.manifest["sqlite"].items() if name != "home"}
    twice = {**process.settings, "storage": {**process.settings["storage"], "single_write_bytes_min": 0}}
    defaults = process.settings
    versions, once = [index_version(process.data)], [places_in_journal(process.data)]
    dlog = Command(uri)
    for number, settings in enumerate((defaults, twice, defaults)):
        process.settings = settings
        process.start()
        if number == 0:
            assert contents_of(uri, deleted=expected["deleted"]) == expected
        asyncio.run(append_large(uri, number))
        before = dlog.here("read", "orders").must_succeed()
        assert process.terminate() == 0
        versions.append(index_version(process.data))
        once.append(places_in_journal(process.data))
        process.start()
        assert dlog.here("read", "orders").must_succeed() == before
        assert [f"large {each} " in before for each in range(number + 1)] == [True] * (number + 1)
        process.kill()
    assert versions == [1, 2, 2, 2]
    assert once[0] == 0 < once[1] == once[2] < once[3]


async def append_large(uri: str, number: int) -> None:
    """A run of entries that is long enough to be written once."""
    config = LogConfig(quorum=QuorumSizes(ensemble=1, write=1, ack=1))
    async with connect(uri, config=config) as client, client.open_writer("orders") as writer:
        await writer.append(b"large %d " % number + bytes(64 * 1024))


def index_version(data: Path) -> int:
    """Of a stopped bookie."""
    store = SystemDisk().open_key_values(data / "ledgers" / "index")
    try:
        value = store.get(b"E")
    finally:
        store.close()
    assert value is not None
    return int.from_bytes(value[:4], "big")


def places_in_journal(data: Path) -> int:
    """How many blocks of a stopped bookie are in journal files."""
    store = SystemDisk().open_key_values(data / "ledgers" / "index")
    try:
        return sum(is_segment(each.log_id) for _, each in Index(store).all_intervals())
    finally:
        store.close()


def test_there_is_a_set_of_each_release() -> None:
    """CONTRIBUTING.md says when one is made."""
    assert "0.1.0" in [each.release for each in SETS]
