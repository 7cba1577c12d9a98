"""What our driver leaves in ZooKeeper, byte for byte and path for path, in each of BookKeeper's layouts."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from kazoo.client import KazooClient

from ledger.errors import (
    AlreadyExistsError,
    ConfigurationError,
    LayoutMismatchError,
    MetadataFormatError,
    RecordNotFoundError,
)
from ledger.metadata.drivers import open_store
from ledger.metadata.format.cookie import decode_cookie, encode_cookie
from ledger.metadata.repair_store import UnderReplicated
from ledger.metadata.zookeeper.store import ZooKeeperStore
from ledger.model import BookieId, BookieInfo, LedgerId
from tests.helpers.metadata import vectors
from tests.helpers.metadata.drivers import B1, bookie, new_metadata
from tests.helpers.processes.zookeeper import ZooKeeperProcess

ZNODES = {path: value for path, value, _ in vectors.nodes()}
LAYOUTS = ("flat", "hierarchical", "legacyhierarchical", "longhierarchical")


class Place:
    """A root of its own on the server: its address for each layout, and its nodes as kazoo shows them."""

    def __init__(self, server: ZooKeeperProcess, raw: KazooClient) -> None:
        self.root = server.new_root()
        self.raw = raw
        self._server = server

    def uri(self, layout: str = "null") -> str:
        return f"zk+{layout}://{self._server.address}{self.root}"

    async def open(self, layout: str = "null") -> ZooKeeperStore:
        store = await open_store(self.uri(layout))
        assert isinstance(store, ZooKeeperStore)
        return store

    async def cluster(self, layout: str = "null") -> ZooKeeperStore:
        store = await self.open(layout)
        await store.init_cluster()
        return store

    def value(self, path: str) -> bytes:
        return bytes(self.raw.get(self.root + path)[0])

    def tree(self, path: str = "") -> set[str]:
        """Every node below the root."""
        found = set()
        for name in self.raw.get_children(self.root + path):
            found |= {f"{path}/{name}", *self.tree(f"{path}/{name}")}
        return found


@pytest.fixture
def place(zookeeper: ZooKeeperProcess, raw: KazooClient) -> Place:
    return Place(zookeeper, raw)


async def test_a_new_cluster_has_the_nodes_of_apaches(place: Place) -> None:
    store = await place.cluster()
    assert place.tree() == {"/LAYOUT", "/INSTANCEID", "/available", "/available/readonly"}
    assert place.value("/LAYOUT") == ZNODES["/LAYOUT"]
    assert place.value("/INSTANCEID").decode() == await store.instance_id()
    acls, stat = place.raw.get_acls(place.root + "/LAYOUT")
    assert [(acl.id.scheme, acl.id.id, acl.perms) for acl in acls] == [("world", "anyone", 31)]
    assert stat.version == 0
    await store.close()


PATHS = {
    "flat": {0: "/L0000000000", 12345: "/L0000012345", 2147483646: "/L2147483646"},
    "hierarchical": {int(row["ledgerId"]): row["hierarchical"] for row in vectors.load()["ledger_paths"]},
    "legacyhierarchical": {0: "/00/0000/L0000", 12345: "/00/0001/L2345", 2147483647: "/21/4748/L3647"},
    "longhierarchical": {
        0: "/000/0000/0000/0000/L0000",
        12345: "/000/0000/0000/0001/L2345",
        1234567890: "/000/0000/0012/3456/L7890",
        2147483646: "/000/0000/0021/4748/L3646",
        9223372036854775807: "/922/3372/0368/5477/L5807",
    },
}


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_ledgers_stand_where_apaches_stand(place: Place, layout: str) -> None:
    store = await place.cluster(layout)
    for ledger_id, path in PATHS[layout].items():
        await store.create_ledger(LedgerId(ledger_id), new_metadata())
        assert place.raw.exists(place.root + path) is not None
    assert [ledger_id async for ledger_id in store.ledger_ids()] == sorted(PATHS[layout])
    for ledger_id in PATHS[layout]:
        await store.remove_ledger(LedgerId(ledger_id))
    # The directories went with the last ledger in them.
    assert place.tree() == {"/LAYOUT", "/INSTANCEID", "/available", "/available/readonly"}
    await store.close()


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_a_ledger_lives_in_every_layout(place: Place, layout: str) -> None:
    """Init writes LAYOUT, ids rise, and a store opened without a layout obeys what it finds."""
    store = await place.cluster(layout)
    made = [(await store.create_new_ledger(new_metadata()))[0] for _ in range(3)]
    plain = await place.open()
    drawn = await plain.new_ledger_id()
    assert made == sorted(set(made)) and drawn > made[-1]
    if layout != "flat":  # there the root counts all its children
        assert [*made, drawn] == [0, 1, 2, 3]
    assert [ledger_id async for ledger_id in plain.ledger_ids()] == made
    assert await plain.write_ledger(made[1], new_metadata(), 0) == 1
    assert (await store.read_ledger(made[1])).version == 1
    assert not [path for path in place.tree() if "ID-" in path]
    await store.format_cluster()
    assert [ledger_id async for ledger_id in plain.ledger_ids()] == []
    assert await plain.new_ledger_id() > drawn
    await plain.nuke_cluster(await plain.instance_id())
    if layout in ("flat", "legacyhierarchical"):
        assert place.tree() <= {"/idgen"}
    else:
        assert place.raw.exists(place.root) is None
    await store.close()
    await plain.close()


async def test_another_layout_than_the_stores_is_refused(place: Place) -> None:
    store, wrong = await place.cluster("flat"), await place.open("hierarchical")
    with pytest.raises(LayoutMismatchError, match="flat"):
        await wrong.read_ledger(LedgerId(1))
    place.raw.set(place.root + "/LAYOUT", b"2\norg.example.Other:1")
    await asyncio.sleep(0)
    unknown = await place.open()
    with pytest.raises(MetadataFormatError, match="not known here"):
        await unknown.read_ledger(LedgerId(1))
    for each in (store, wrong, unknown):
        await each.close()


async def test_a_cluster_without_layout_gets_one_from_its_first_client(place: Place) -> None:
    """As Apache's metaformat leaves it."""
    for path in ("", "/available", "/available/readonly"):
        place.raw.create(place.root + path, makepath=True)
    place.raw.create(place.root + "/INSTANCEID", b"an-id")
    store = await place.open("longhierarchical")
    await store.create_ledger(LedgerId(5), new_metadata())
    assert place.value("/LAYOUT").endswith(b"LongHierarchicalLedgerManagerFactory:1")
    assert place.raw.exists(place.root + "/000/0000/0000/0000/L0005")
    await store.close()


# ---- ids


class _Counters:
    """Shifts the numbers that ZooKeeper counts under a path, as if so many had been drawn before."""

    def __init__(self, store: ZooKeeperStore, shifts: dict[str, int]) -> None:
        session: Any = store._session
        create = session.create

        def shifted(path: str, value: bytes = b"", **kind: Any) -> Any:
            if not kind.get("sequence"):
                return create(path, value, **kind)
            return asyncio.ensure_future(count(path, value, kind))

        async def count(path: str, value: bytes, kind: dict[str, Any]) -> str:
            number = int((await create(path, value, **kind)).removeprefix(path))
            number += next((by for end, by in shifts.items() if path.endswith(end)), 0)
            number = (number + 2**31) % 2**32 - 2**31  # a signed int, as in ZooKeeper
            return f"{path}{number:010d}"

        session.create = shifted


async def test_short_ids_run_over_into_long_ones(place: Place) -> None:
    """2147483646 is the last short one; then the directory of the first high bits is made and counts anew."""
    store = await place.cluster()
    _Counters(store, {"/idgen/ID-": 2**31 - 3})
    drawn = [await store.new_ledger_id() for _ in range(4)]
    assert drawn == [2**31 - 3, 2**31 - 2, 2**32, 2**32 + 1]
    assert place.raw.exists(place.root + "/idgen-long/HOB-0000000001")
    other = await place.open()
    assert await other.new_ledger_id() == 2**32 + 2
    ledger_id, _ = await other.create_new_ledger(new_metadata())
    assert place.raw.exists(place.root + "/000/0000/0042/9496/L7299") and ledger_id == 2**32 + 3
    await store.close()
    await other.close()


async def test_the_next_high_bits_follow_and_old_counters_go(place: Place) -> None:
    store = await place.cluster()
    for high in range(1, 5):
        place.raw.create(f"{place.root}/idgen-long/HOB-{high:010d}", makepath=True)
    _Counters(store, {"HOB-0000000004/ID-": 2**31 - 2})
    assert [await store.new_ledger_id() for _ in range(3)] == [
        (4 << 32) + 2**31 - 2,
        5 << 32,
        (5 << 32) + 1,
    ]
    assert sorted(place.raw.get_children(place.root + "/idgen-long")) == [
        f"HOB-{high:010d}" for high in (3, 4, 5)
    ]
    await store.close()


@pytest.mark.parametrize("layout", ["flat", "legacyhierarchical"])
async def test_a_layout_without_long_ids_reports_that_ids_are_used_up(place: Place, layout: str) -> None:
    store = await place.cluster(layout)
    _Counters(store, {"/ID-": 2**31 - 1})
    with pytest.raises(ConfigurationError, match="all its ids"):
        await store.new_ledger_id()
    with pytest.raises(ConfigurationError, match="outside"):
        await store.create_ledger(LedgerId(10**10), new_metadata())
    await store.close()


@pytest.mark.parametrize("layout", ["flat", "legacyhierarchical"])
async def test_a_ledger_id_that_no_client_drew_uses_up_no_short_ids(place: Place, layout: str) -> None:
    """A bookie has it from a client that draws none; short ids would have to be drawn up to it."""
    store = await place.cluster(layout)
    first = await store.new_ledger_id()
    stored = (first + 30, 2**31 - 2, 2**33, 2**62)

    def newest(limit: int) -> int:
        return max(each for each in stored if each <= limit)

    await store.register_bookie(bookie(B1), newest_ledger=newest)
    assert first + 30 < await store.new_ledger_id() < first + 34
    await store.close()


# ---- values


async def test_apaches_ledger_metadata_survives_a_rewrite_byte_for_byte(place: Place) -> None:
    """Every recorded value is read through the driver and written back; only the token of its create goes."""
    store = await place.cluster()
    recorded = [
        (path, value)
        for path, value, _ in vectors.nodes()
        if value.startswith(b"BookieMetadataFormatVersion\t")
    ]
    assert len(recorded) >= 15
    await store.create_ledger(LedgerId(1000), new_metadata())
    node = f"{place.root}/00/0000/L1000"
    for path, value in recorded:
        place.raw.set(node, value)
        found = await store.read_ledger(LedgerId(1000))
        await store.write_ledger(LedgerId(1000), found.value, found.version)
        if found.value.c_token:
            again = await store.read_ledger(LedgerId(1000))
            assert again.value == replace(found.value, c_token=0), path
        else:
            assert bytes(place.raw.get(node)[0]) == value, path
    await store.close()


async def test_cookies_and_registrations_are_apaches_bytes(place: Place) -> None:
    store = await place.cluster()
    for name in ("bookie-one", "127.0.0.1:3189"):
        cookie = ZNODES[f"/cookies/{name}"]
        await store.write_cookie(BookieId(name), encode_cookie(decode_cookie(cookie)), None)
        assert place.value(f"/cookies/{name}") == cookie
    registered = ZNODES["/available/127.0.0.1:3189"]
    info = BookieInfo(bookie_id=BookieId("127.0.0.1:3189"), host="127.0.0.1", port=3189)
    registration = await store.register_bookie(info)
    assert place.value("/available/127.0.0.1:3189") == registered
    await registration.set_read_only(True)
    assert place.value("/available/readonly/127.0.0.1:3189") == registered
    assert place.raw.get_children(place.root + "/available") == ["readonly"]
    stat = place.raw.exists(place.root + "/available/readonly/127.0.0.1:3189")
    assert stat.ephemeralOwner == store._session.session_id
    await store.close()


async def test_apaches_bookies_are_found_where_they_publish(place: Place) -> None:
    """With and without service info; the node `readonly` may hold data and be missing."""
    store = await place.cluster()
    place.raw.delete(place.root + "/available/readonly")
    place.raw.create(place.root + "/available/10.0.0.1:3181", b"", ephemeral=True)
    place.raw.create(place.root + "/available/bookie-one", ZNODES["/available/bookie-one"], ephemeral=True)
    place.raw.create(place.root + "/available/nonsense", b"\xff", ephemeral=True)
    found = await store.bookies()
    assert {info.bookie_id for info in found.writable} == {"10.0.0.1:3181", "bookie-one"}
    registration = await store.register_bookie(bookie(B1, read_only=True))
    assert [info.bookie_id for info in (await store.bookies()).read_only] == [B1]
    await registration.close()
    await store.close()
    for name in ("10.0.0.1:3181", "bookie-one", "nonsense"):
        place.raw.delete(f"{place.root}/available/{name}")


async def test_records_are_stored_next_to_the_ledgers(place: Place) -> None:
    """Nothing of ours is below BookKeeper's root, and parents come and go with the records below them."""
    store = await place.cluster()
    before = place.tree()
    await store.create_record("/dlog/default/a/uuid/record", b"value")
    assert place.tree() == before
    beside = place.root + "-records"
    assert bytes(place.raw.get(beside + "/dlog/default/a/uuid/record")[0]) == b"value"
    # A parent becomes a record, and a parent again; its versions go on.
    version = await store.create_record("/dlog/default/a", b"")
    assert await store.write_record("/dlog/default/a", b"x", version) == version + 1
    await store.remove_record("/dlog/default/a", version + 1)
    assert await store.list_records("/dlog/default") == ["a"]
    await store.remove_record("/dlog/default/a/uuid/record", 0)
    assert place.raw.get_children(beside) == []
    await store.close()


async def test_a_parent_is_not_taken_for_a_record(place: Place) -> None:
    store = await place.cluster()
    await store.create_record("/a/b", b"")
    for call in (
        store.read_record("/a"),
        store.write_record("/a", b"x", 0),
        store.remove_record("/a", 0),
    ):
        with pytest.raises(RecordNotFoundError, match="/a does not exist"):
            await call
    await store.close()


async def test_marks_of_autorecovery_can_be_read(place: Place) -> None:
    store = await place.cluster()
    assert [mark async for mark in store.repair.marks()] == []
    marks = {
        12345: "/0000/0000/0000/3039/urL0000012345",
        4294967301: "/0000/0001/0000/0005/urL4294967301",
    }
    for path in marks.values():
        place.raw.create(
            f"{place.root}/underreplication/ledgers{path}", b'replica: "b-1"\nctime: 5\n', makepath=True
        )
    apaches = "/underreplication/ledgers/0000/0001/0000/0002/urL4294967298"
    place.raw.create(place.root + apaches, ZNODES[apaches], makepath=True)
    found = [mark async for mark in store.repair.marks()]
    assert [mark.ledger_id for mark in found] == [12345, 4294967298, 4294967301]
    assert found[0] == UnderReplicated(LedgerId(12345), (BookieId("b-1"),), 5)
    assert found[1].missing and found[1].marked_ms
    await store.format_cluster()
    assert [mark async for mark in store.repair.marks()] == []
    await store.close()


async def test_what_a_bookie_publishes_is_read_once_and_again_when_it_changes(place: Place) -> None:
    store, other = await place.cluster(), await place.open()
    await store.register_bookie(bookie(B1, port=1111))
    reads: list[str] = []
    session: Any = other._session
    get = session.get
    session.get = lambda path: (reads.append(path), get(path))[1]
    for _ in range(3):
        assert [info.port for info in (await other.bookies()).writable] == [1111]
    node = f"{place.root}/available/{B1}"
    assert reads.count(node) == 1
    for port in (2222, 3333):
        await store.register_bookie(bookie(B1, port=port))
        assert [info.port for info in (await other.bookies()).writable] == [port]
    assert reads.count(node) == 3
    await store.close()
    await other.close()


async def test_a_nuke_that_stopped_in_the_middle_is_run_again(place: Place) -> None:
    store = await place.cluster()
    await store.create_ledger(LedgerId(1), new_metadata())
    for path in ("/available/readonly", "/available", "/LAYOUT"):
        place.raw.delete(place.root + path)
    with pytest.raises(AlreadyExistsError, match="an interrupted `bookie nuke-cluster` left of a cluster"):
        await store.init_cluster()
    await store.nuke_cluster(await store.instance_id())
    assert place.raw.exists(place.root) is None
    await store.init_cluster()
    await store.close()


async def test_ids_go_on_where_a_removed_cluster_had_come_to(place: Place) -> None:
    """Its counters go with the root; what is left beside it gives the next cluster ids that none had."""
    store = await place.cluster()
    assert [await store.new_ledger_id() for _ in range(2)] == [0, 1]
    await store.nuke_cluster(await store.instance_id())
    assert place.raw.get(place.root + "-ids")[0] == b"1"
    await store.init_cluster()
    assert [await store.new_ledger_id() for _ in range(2)] == [1 << 32, (1 << 32) + 1]
    assert (await store.create_new_ledger(new_metadata()))[0] == (1 << 32) + 2
    await store.nuke_cluster(await store.instance_id())
    await store.init_cluster()
    await store.nuke_cluster(await store.instance_id())
    flat = await place.open("flat")
    with pytest.raises(ConfigurationError, match="another path"):
        await flat.init_cluster()
    assert place.raw.exists(place.root) is None
    await store.init_cluster()
    assert await store.new_ledger_id() == 3 << 32
    await flat.close()
    await store.close()


async def test_a_handle_finds_that_the_next_cluster_has_short_ids(place: Place) -> None:
    """Apache's initnewcluster knows nothing of ours and counts from 0."""
    store = await place.cluster()
    place.raw.create(place.root + "/idgen-long")
    assert await store.new_ledger_id() == 1 << 32
    await store.nuke_cluster(await store.instance_id())
    place.raw.delete(place.root + "-ids")
    await store.init_cluster()
    assert await store.new_ledger_id() == 0
    await store.close()


async def test_a_root_with_something_of_others_in_it_stays(place: Place) -> None:
    store = await place.cluster()
    await store.new_ledger_id()
    place.raw.create(place.root + "/notes")
    await store.nuke_cluster(await store.instance_id())
    assert place.tree() == {"/notes"}
    await store.init_cluster()
    assert await store.new_ledger_id() == 1 << 32
    await store.close()
