"""What a demonstration takes away at the end, and what it must never touch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dlog.demo.place import Place, _delete, find_place, remove_from_store
from ledger.errors import MetadataUnavailableError, NotEnoughBookiesError, RecordNotFoundError
from ledger.metadata.drivers import open_store
from ledger.metadata.format.cookie import Cookie, encode_cookie
from ledger.metadata.store import MetadataStore
from ledger.model import BookieId, BookieInfo

MINE, ANOTHERS = BookieId("mine:3181"), BookieId("anothers:3181")


def cookie_in(home: Path, bookie_id: BookieId) -> bytes:
    places = (str(home / "bookie-1" / "journal"),), (str(home / "bookie-1" / "ledgers"),)
    return encode_cookie(Cookie(bookie_id=bookie_id, journal_dirs=places[0], ledger_dirs=places[1]))


@asynccontextmanager
async def cluster(tmp_path: Path) -> AsyncIterator[MetadataStore]:
    store = await open_store(f"sqlite:///{tmp_path / 'meta.db'}")
    await store.init_cluster()
    await store.write_cookie(MINE, cookie_in(tmp_path / "demo", MINE), None)
    try:
        yield store
    finally:
        await store.close()


async def test_a_cluster_made_for_the_demonstration_goes(tmp_path: Path) -> None:
    async with cluster(tmp_path) as store:
        await remove_from_store(store.uri, tmp_path / "demo", made=True)
        with pytest.raises(RecordNotFoundError):
            await store.instance_id()


async def test_a_cluster_that_was_there_keeps_all_but_its_bookies(tmp_path: Path) -> None:
    async with cluster(tmp_path) as store:
        await store.write_cookie(ANOTHERS, cookie_in(tmp_path / "demo2", ANOTHERS), None)
        await remove_from_store(store.uri, tmp_path / "demo", made=False)
        assert await store.list_cookies() == [ANOTHERS]


async def test_a_cluster_that_another_bookie_has_joined_stays(tmp_path: Path) -> None:
    async with cluster(tmp_path) as store:
        before = await store.instance_id()
        await store.write_cookie(ANOTHERS, b"cookie", None)
        await remove_from_store(store.uri, tmp_path / "demo", made=True)
        assert await store.instance_id() == before
        assert await store.list_cookies() == [ANOTHERS]


AWAY = "zk://127.0.0.1:1;127.0.0.1:2/ledgers?request_timeout_ms=100"


@pytest.mark.parametrize("made", [True, False])
async def test_what_is_left_in_a_store_that_is_away_is_named(tmp_path: Path, made: bool) -> None:
    way_out = f"`bookie nuke-cluster --force --metadata '{AWAY}'`" if made else "`bookie decommission`"
    with pytest.raises(MetadataUnavailableError, match="the demo may have left ") as raised:
        await remove_from_store(AWAY, tmp_path / "demo", made=made)
    assert "no ZooKeeper answered" in str(raised.value) and way_out in str(raised.value)


async def test_logs_that_are_left_in_a_store_that_is_away_are_named() -> None:
    """The cluster has bookies of its own, and is not the demo's to remove."""
    place = Place(AWAY, "flights-1", (MINE,), None)
    with pytest.raises(MetadataUnavailableError, match="the demo may have left ") as raised:
        await _delete(place)
    for log in ("flights-1", "flights-1-live", "flights-1-delays"):
        assert f"`dlog delete {log} --metadata '{AWAY}'`" in str(raised.value)


async def test_too_few_bookies_are_refused_before_anything_is_started(tmp_path: Path) -> None:
    """With one, the demo started a writer, which failed after seconds with a traceback."""

    def start() -> None:
        with find_place(store.uri, tmp_path / "demo", keep=False):
            raise AssertionError("the demo goes on")

    async with cluster(tmp_path) as store:
        await store.register_bookie(BookieInfo(bookie_id=MINE, host="127.0.0.1", port=3181))
        with pytest.raises(NotEnoughBookiesError, match=r"needs 2 writable bookies, .* has 1: start more"):
            await asyncio.to_thread(start)
    assert not (tmp_path / "demo").exists()
