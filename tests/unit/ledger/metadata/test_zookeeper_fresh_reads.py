"""Fresh reads rest on a transaction that a quorum accepted, made after they were asked for and in their session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from kazoo.exceptions import NoAuthError, NoNodeError

from ledger.environment import SystemEnvironment
from ledger.errors import UnauthorizedError
from ledger.metadata.format.layout import LayoutType
from ledger.metadata.uri import parse_uri
from ledger.metadata.zookeeper.address import parse_address
from ledger.metadata.zookeeper.ledgers.walk import LedgerWalk
from ledger.metadata.zookeeper.paths import Paths
from ledger.metadata.zookeeper.records import Records
from ledger.metadata.zookeeper.session import session as session_module
from ledger.metadata.zookeeper.session.kazoo_bridge import Answered, Arrival, Connected
from ledger.metadata.zookeeper.session.session import ZooKeeperSession
from ledger.metadata.zookeeper.session.watches import Watches

PROOF = "check"


class _ScriptedBridge:
    """kazoo's place: notes what is sent, and the test answers."""

    def __init__(self, *given: Any) -> None:
        self._arrive: Callable[[Arrival], None] = given[-1]
        self.sent: list[tuple[str, Any]] = []

    def start(self) -> None:
        self.connect(1)

    async def stop(self) -> None:
        pass

    def connect(self, session_id: int) -> None:
        self._arrive(Connected(session_id))

    def submit(self, call: Any, request: Callable[[Any], Any]) -> None:
        kazoo = _NotingClient()
        request(kazoo)
        self.sent.append((kazoo.asked, call))

    def answer(self, value: Any = None, error: Exception | None = None) -> None:
        """The oldest request that has no answer yet."""
        self._arrive(Answered(self.sent.pop(0)[1], value, error))


class _NotingClient:
    asked = ""

    def get_async(self, path: str) -> None:
        self.asked = path

    def get_children_async(self, path: str) -> None:
        self.asked = f"children of {path}"

    def transaction(self) -> _NotingClient:
        return self

    def check(self, path: str, version: int) -> None:
        assert (path, version) == ("/ledgers", -1)
        self.asked = PROOF

    def commit_async(self) -> None:
        pass


Bridges = list[_ScriptedBridge]


@pytest.fixture
def bridges(monkeypatch: pytest.MonkeyPatch) -> Bridges:
    """Those made so far."""
    made: Bridges = []

    def make(*given: Any) -> _ScriptedBridge:
        made.append(_ScriptedBridge(*given))
        return made[-1]

    monkeypatch.setattr(session_module, "KazooBridge", make)
    return made


async def opened(bridges: Bridges) -> tuple[ZooKeeperSession, _ScriptedBridge]:
    address = parse_address(parse_uri("zk://127.0.0.1:2181/ledgers"))
    session = ZooKeeperSession(address, None, SystemEnvironment())
    await session.open()
    return session, bridges[-1]


async def sent(bridge: _ScriptedBridge) -> list[str]:
    for _ in range(10):
        await asyncio.sleep(0)
    return [asked for asked, _ in bridge.sent]


async def test_reads_of_one_turn_share_a_proof_that_is_sent_before_them(bridges: Bridges) -> None:
    session, bridge = await opened(bridges)
    reads = [asyncio.ensure_future(session.get_fresh(path)) for path in ("/a", "/b")]
    assert await sent(bridge) == [PROOF, "/a", "/b"]
    late = asyncio.ensure_future(session.get_fresh("/c"))
    assert await sent(bridge) == [PROOF, "/a", "/b", PROOF, "/c"]
    for value in ([True], b"a", b"b", [True], b"c"):
        bridge.answer(value)
    assert await asyncio.gather(*reads, late) == [b"a", b"b", b"c"]


async def test_a_read_waits_for_its_proof(bridges: Bridges) -> None:
    session, bridge = await opened(bridges)
    read = asyncio.ensure_future(session.get_fresh("/a"))
    await sent(bridge)
    bridge.sent.reverse()
    bridge.answer(b"old")
    await asyncio.sleep(0.01)
    assert not read.done()
    bridge.answer(error=session.failures.unanswered("hangs", is_change=False))
    with pytest.raises(Exception, match="hangs"):
        await read


@pytest.mark.parametrize("answer", [(b"old", None), (None, NoNodeError())])
async def test_a_session_that_begins_between_the_two_is_asked_again(
    bridges: Bridges, answer: tuple[bytes | None, Exception | None]
) -> None:
    """Its server may know less than the one that gave the proof."""
    session, bridge = await opened(bridges)
    read = asyncio.ensure_future(session.get_fresh("/a"))
    await sent(bridge)
    bridge.answer([True])
    bridge.connect(2)
    bridge.answer(*answer)
    assert await sent(bridge) == [PROOF, "/a"]
    bridge.answer([True])
    bridge.answer(b"new")
    assert await read == b"new"


async def test_a_cancelled_read_takes_nothing_from_the_others(bridges: Bridges) -> None:
    session, bridge = await opened(bridges)
    first, second = (asyncio.ensure_future(session.get_fresh(path)) for path in ("/a", "/b"))
    await asyncio.sleep(0)
    first.cancel()
    assert PROOF in await sent(bridge)
    bridge.answer([True])
    while bridge.sent:
        bridge.answer(b"b")
    assert await second == b"b"


async def test_a_refused_proof_refuses_the_read(bridges: Bridges) -> None:
    session, bridge = await opened(bridges)
    read = asyncio.ensure_future(session.get_fresh("/a"))
    await sent(bridge)
    bridge.answer([NoAuthError()])
    bridge.answer(b"a")
    with pytest.raises(UnauthorizedError):
        await read


async def test_a_cluster_that_is_not_there_proves_as_much(bridges: Bridges) -> None:
    """A quorum has accepted that its root is missing."""
    session, bridge = await opened(bridges)
    read = asyncio.ensure_future(session.get_fresh("/ledgers-ids"))
    assert await sent(bridge) == [PROOF, "/ledgers-ids"]
    bridge.answer([NoNodeError()])
    bridge.answer(b"7")
    assert await read == b"7"


async def test_a_listing_of_records_is_a_fresh_read(bridges: Bridges) -> None:
    """A name that a server does not list yet must not look like one that was removed."""
    session, bridge = await opened(bridges)
    listing = asyncio.ensure_future(Records(session, Paths("/ledgers")).children("/logs"))
    assert await sent(bridge) == [PROOF, f"children of {Paths('/ledgers').record('/logs')}"]
    bridge.sent.reverse()
    bridge.answer(["a"])
    await asyncio.sleep(0)
    assert not listing.done()
    bridge.connect(2)
    bridge.answer([True])
    assert [asked for asked in await sent(bridge) if asked == PROOF] == [PROOF]
    bridge.answer([True])
    bridge.answer(["b", "a"])
    assert await listing == ["a", "b"]


async def test_a_prefix_without_records_is_empty_once_that_is_proved(bridges: Bridges) -> None:
    session, bridge = await opened(bridges)
    listing = asyncio.ensure_future(Records(session, Paths("/ledgers")).children("/logs"))
    await sent(bridge)
    bridge.answer([True])
    bridge.answer(error=NoNodeError())
    assert await listing == []


async def test_a_walk_over_the_ledgers_begins_with_a_fresh_read_in_each_session(bridges: Bridges) -> None:
    """A decommission takes a walk that finds no ledger of a bookie as proof that there is none."""
    session, bridge = await opened(bridges)
    walk = LedgerWalk(session, Watches(session), "/ledgers", LayoutType.HIERARCHICAL).ids()
    end = asyncio.ensure_future(anext(walk, None))
    assert await sent(bridge) == [PROOF, "children of /ledgers"]
    bridge.answer([True])
    bridge.answer(["00", "01"])
    assert await sent(bridge) == ["children of /ledgers/00"]
    bridge.answer([])
    assert await sent(bridge) == ["children of /ledgers/01"]
    bridge.connect(2)
    bridge.answer([])
    assert await sent(bridge) == [PROOF, "children of /ledgers/01"]
    bridge.answer([True])
    bridge.answer([])
    assert await end is None
