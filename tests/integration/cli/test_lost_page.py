"""A page of a log's ledger list is lost or damaged: what each command does, and which change something."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import pytest

from dlog.client import connect
from dlog.ledger_list.listing import SHORT_SIZES
from dlog.local.embedded import Standalone
from dlog.model import MessageId
from tests.helpers.processes.command import Command

pytestmark = pytest.mark.integration

LOG = "long"


@dataclass(frozen=True)
class Place:
    dlog: Command
    database: str
    ids: list[MessageId]

    def stored(self) -> list[tuple[str, bytes]]:
        """Everything but the log's record, which an owner changes."""
        with closing(sqlite3.connect(self.database)) as connection:
            return connection.execute("SELECT key, value FROM nodes ORDER BY key").fetchall()


async def fill(uri: str, log: str = LOG) -> list[MessageId]:
    """A message in each of twelve ledgers, most of them in pages."""
    async with connect(uri) as client:
        client.logs.list_sizes = SHORT_SIZES
        async with client.open_writer(log, create=True) as writer:
            ids = []
            for number in range(12):
                ids.append(await writer.append(b"%d" % number))
                await writer.rotate()
        await client.set_cursor(log, "slow", "earliest")
        return ids


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with Standalone(tmp_path_factory.mktemp("pages")) as cluster:
        ids = asyncio.run(fill(cluster.uri))
        yield Place(Command(cluster.uri), cluster.uri.removeprefix("sqlite:///"), ids)


@pytest.fixture(params=["lost", "damaged"])
def harmed(place: Place, request: pytest.FixtureRequest) -> Iterator[str]:
    """The key of the page with the first ledgers, which is restored afterwards."""
    with closing(sqlite3.connect(place.database)) as connection, connection:
        pages = connection.execute(
            "SELECT key, value FROM nodes WHERE key LIKE '%/pages/0-%' ORDER BY key"
        ).fetchall()
        key, value = min(pages, key=lambda page: int(page[0].rpartition("/")[2].split("-")[1]))
        if request.param == "lost":
            [row] = connection.execute("SELECT * FROM nodes WHERE key = ?", (key,)).fetchall()
            connection.execute("DELETE FROM nodes WHERE key = ?", (key,))
        else:
            connection.execute("UPDATE nodes SET value = ? WHERE key = ?", (value[:20], key))
    yield key.removeprefix("records")
    with closing(sqlite3.connect(place.database)) as connection, connection:
        if request.param == "lost":
            connection.execute(f"INSERT INTO nodes VALUES ({', '.join('?' * len(row))})", row)
        else:
            connection.execute("UPDATE nodes SET value = ? WHERE key = ?", (value, key))


def test_what_needs_the_page_names_it_and_changes_nothing(place: Place, harmed: str) -> None:
    before = place.stored()
    first, newest = str(place.ids[0]), str(place.ids[-1])
    for arguments in (
        ("read", LOG),
        ("read", LOG, "--from", first, "--until", newest),
        ("read", LOG, "--cursor", "slow"),
        ("ledgers", LOG),
        ("history", LOG),
        ("verify", LOG),
        ("explain", LOG, first),
        ("cursor", "ls", LOG),
    ):
        result = place.dlog.here(*arguments)
        assert (result.code, result.out) == (1, ""), arguments
        sentence = result.err.splitlines()[-1]
        assert f"page {harmed.rpartition('/')[2]} of the history of log default/{LOG}" in sentence, arguments
        assert f"restore {harmed} in the metadata store from a backup" in sentence, arguments
        if arguments != ("read", LOG, "--cursor", "slow"):
            assert place.stored() == before, arguments
        before = place.stored()


def test_what_does_not_need_the_page_works(place: Place, harmed: str) -> None:
    newest = str(place.ids[-1])
    assert place.dlog.here("read", LOG, "--from", newest, "-n", "1", "-o", "raw").must_succeed() == "11\n"
    assert place.dlog.here("tail", LOG, "-n", "1", "-o", "raw").must_succeed().strip()
    place.dlog.here("explain", LOG, newest).must_succeed()
    place.dlog.here("properties", LOG).must_succeed()
    place.dlog.here("info", LOG).must_succeed()
    place.dlog("append", LOG, stdin=b"more\n").must_succeed()
    assert place.dlog.here("rotate", LOG).must_succeed()


def test_a_trim_past_the_page_or_a_deletion_of_the_log_is_the_way_out(place: Place) -> None:
    """`dlog gc` reports a page once while it lists something."""
    ids = asyncio.run(fill(place.dlog.uri, "short"))
    with closing(sqlite3.connect(place.database)) as connection, connection:
        pages = connection.execute("SELECT key FROM nodes WHERE key LIKE '%/short/%/pages/0-%'").fetchall()
        by_first_id = sorted(
            (key for (key,) in pages), key=lambda key: int(key.rpartition("/")[2].split("-")[1])
        )
        lost = by_first_id[0], by_first_id[3]
        connection.executemany("DELETE FROM nodes WHERE key = ?", [(key,) for key in lost])
    first, later = (key.removeprefix("records") for key in lost)
    printed = place.dlog("gc", "--age", "0").err
    assert [printed.count(f"restore {key} in") for key in (first, later)] == [1, 1]
    trimmed = place.dlog("shrink", "short", f"{ids[1].ledger_id + 1}:0:0")
    trimmed.must_succeed()
    collected = place.dlog("gc", "--age", "0").must_succeed()
    assert (trimmed.err.count(first), collected) == (1, "0 ledgers deleted\n")
    deleted = place.dlog("delete", "short", "--yes")
    assert deleted.must_succeed() == "deleted short\n"
    assert [deleted.err.count(key) for key in (first, later)] == [0, 1]
