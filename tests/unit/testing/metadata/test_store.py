"""What can go wrong between a node and the simulated metadata store, and what cannot."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from dlog.testing.kernel.faults import MetadataFault
from dlog.testing.metadata.history import CallOutcome
from ledger.errors import (
    ConfigurationError,
    LogStoreError,
    MetadataOutcomeUnknownError,
    MetadataUnavailableError,
)
from ledger.metadata.drivers import open_store
from ledger.model import BookieId, BookieInfo, EntryId, Fragment, LedgerId, LedgerMetadata, QuorumSizes
from tests.helpers.simulation.disk import CountedEnvironment, run
from tests.helpers.simulation.metadata_clients import TIMING, World, race_under_faults

B1 = BookieInfo(bookie_id=BookieId("b1:1"), host="b1", port=1)
METADATA = LedgerMetadata(
    quorum=QuorumSizes(ensemble=1, write=1, ack=1),
    fragments=(Fragment(EntryId(0), (BookieId("b1:1"),)),),
)


def in_world(test: Callable[[World], Awaitable[None]]) -> Callable[[], None]:
    async def main() -> None:
        await test(await World().begin())

    def wrapped() -> None:
        run(main())

    wrapped.__name__, wrapped.__doc__ = test.__name__, test.__doc__
    return wrapped


def now() -> float:
    return asyncio.get_running_loop().time()


class Counter:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1


# ---- outcomes


@in_world
async def test_a_call_decides_between_its_invocation_and_its_return(world: World) -> None:
    began = now()
    write = asyncio.ensure_future(world.a.write_record("/r", b"new", 0))
    await asyncio.sleep(0.005)  # its request is under way; what is asked now arrives after it
    read = asyncio.ensure_future(world.value())
    assert await write == 1
    assert now() - began == pytest.approx(0.03)
    assert await read == b"new"


@in_world
async def test_unavailable_means_certainly_not_made(world: World) -> None:
    world.server.faults.arm("metadata_unavailable", "a")
    with pytest.raises(MetadataUnavailableError):
        await world.a.write_record("/r", b"new", 0)
    await asyncio.sleep(60)
    assert await world.value() == b"old"


@pytest.mark.parametrize(
    ("fault", "at_once", "later"),
    [
        ("metadata_answer_lost", b"new", b"new"),
        ("metadata_request_lost", b"old", b"old"),
        ("metadata_request_late", b"old", b"new"),
    ],
)
def test_an_unknown_outcome_is_each_of_three(fault: MetadataFault, at_once: bytes, later: bytes) -> None:
    """Made, never made, or made long after its caller gave up."""

    async def main() -> None:
        world = await World().begin()
        world.server.faults.arm(fault, "a")
        with pytest.raises(MetadataOutcomeUnknownError):
            await world.a.write_record("/r", b"new", 0)
        assert await world.value() == at_once
        await asyncio.sleep(10)
        assert await world.value() == later
        assert world.notes.counts[f"fault.{fault}"] == 1

    run(main())


def test_a_refusal_whose_answer_is_lost_is_unknown_too() -> None:
    async def main() -> None:
        world = await World().begin()
        world.server.faults.arm("metadata_answer_lost")
        with pytest.raises(MetadataOutcomeUnknownError):
            await world.a.write_record("/r", b"new", 5)

    run(main())


def test_a_failed_read_changed_nothing_and_reports_it() -> None:
    async def main() -> None:
        world = await World().begin()
        kinds: list[MetadataFault] = [
            "metadata_unavailable",
            "metadata_answer_lost",
            "metadata_request_lost",
            "metadata_request_late",
        ]
        for kind in kinds:
            world.server.faults.arm(kind)
            with pytest.raises(MetadataUnavailableError):
                await world.a.read_record("/r")

    run(main())


@in_world
async def test_a_caller_who_gives_up_does_not_stop_the_change(world: World) -> None:
    write = asyncio.ensure_future(world.a.write_record("/r", b"new", 0))
    await asyncio.sleep(0.001)
    write.cancel()
    await asyncio.sleep(1)
    assert await world.value() == b"new"


# ---- partitions and sessions


def test_what_was_sent_into_a_cut_arrives_when_it_heals_or_never() -> None:
    found = set()

    async def main(seed: int) -> None:
        world = await World(seed).begin()
        world.server.partition("a")
        began = now()
        with pytest.raises(MetadataOutcomeUnknownError):
            await world.a.write_record("/r", b"new", 0)
        assert now() - began == TIMING.request_timeout_s
        assert await world.value() == b"old"
        world.server.heal("a")
        await asyncio.sleep(5)
        found.add(await world.value())
        assert (await world.a.read_record("/r")).value in found

    for seed in range(10):
        run(main(seed))
    assert found == {b"old", b"new"}


@in_world
async def test_an_answer_into_a_cut_does_not_arrive(world: World) -> None:
    write = asyncio.ensure_future(world.a.write_record("/r", b"new", 0))
    await asyncio.sleep(0.015)  # decided, the answer is on its way
    world.server.partition("a")
    with pytest.raises(MetadataOutcomeUnknownError):
        await write
    assert await world.value() == b"new"


@in_world
async def test_a_silent_node_loses_its_session_after_the_timeout(world: World) -> None:
    """And nobody before: a session lives as long as its node speaks, by itself, with the server."""
    watch = Counter()
    world.b.watch_bookies(watch)
    await world.a.register_bookie(B1)
    await asyncio.sleep(100)
    assert (await world.b.bookies()).writable == (B1,)
    world.server.partition("a")
    calls = watch.calls
    await asyncio.sleep(TIMING.session_timeout_s * 0.6)
    assert (await world.b.bookies()).writable == (B1,)
    await asyncio.sleep(TIMING.session_timeout_s * 0.5)
    assert (await world.b.bookies()).writable == ()
    await asyncio.sleep(1)
    assert watch.calls > calls
    assert world.notes.counts["fault.session_loss"] == 1
    await world.connect("c").register_bookie(B1)


@in_world
async def test_after_a_lost_session_the_driver_registers_again(world: World) -> None:
    """In the list where the bookie was; and not when its owner has withdrawn it."""
    one = await world.a.register_bookie(B1)
    await one.set_read_only(True)
    two = await world.a.register_bookie(BookieInfo(bookie_id=BookieId("b2:1"), host="b2", port=1))
    await two.close()
    world.server.expire("a")
    assert (await world.b.bookies()).read_only == ()
    await asyncio.sleep(TIMING.session_timeout_s)
    found = await world.b.bookies()
    assert [info.bookie_id for info in found.read_only] == ["b1:1"]
    assert found.writable == ()
    await world.a.write_record("/r", b"new", 0)


@in_world
async def test_a_bookie_whose_registration_was_taken_over_does_not_take_it_back(world: World) -> None:
    await world.a.register_bookie(B1)
    world.server.expire("a")
    await world.b.register_bookie(B1)
    await asyncio.sleep(100)
    await world.b.register_bookie(B1)
    await world.b.close()
    assert (await world.a.bookies()).writable == ()


@in_world
async def test_a_request_of_an_ended_session_has_no_effect(world: World) -> None:
    world.server.expire("a")
    with pytest.raises(MetadataUnavailableError, match="ended"):
        await world.a.write_record("/r", b"new", 0)
    assert await world.value() == b"old"
    await asyncio.sleep(5)
    assert await world.a.write_record("/r", b"new", 0) == 1


@in_world
async def test_closing_ends_the_session_immediately_or_after_the_timeout(world: World) -> None:
    await world.a.register_bookie(B1)
    await world.a.close()
    assert (await world.b.bookies()).writable == ()
    c = world.connect("c")
    await c.register_bookie(B1)
    world.server.partition("c")
    async with asyncio.timeout(60):
        await c.close()
    await asyncio.sleep(TIMING.session_timeout_s)
    assert (await world.b.bookies()).writable == ()


# ---- watches


@in_world
async def test_a_watch_counts_from_the_next_request(world: World) -> None:
    watch = Counter()
    world.a.watch_record("/r", watch)
    await world.b.write_record("/r", b"1", 0)
    await asyncio.sleep(1)
    assert watch.calls == 0
    await world.a.read_record("/r")
    await world.b.write_record("/r", b"2", 1)
    await asyncio.sleep(1)
    assert watch.calls == 1


@pytest.mark.parametrize("kind", ["metadata_request_lost", "metadata_unavailable"])
def test_a_watch_whose_request_is_lost_goes_with_the_next(kind: MetadataFault) -> None:
    async def main() -> None:
        world, watch = await World().begin(), Counter()
        world.a.watch_record("/r", watch)
        world.server.faults.arm(kind)
        with pytest.raises(LogStoreError):
            await world.a.read_record("/r")
        await world.a.read_record("/r")
        await world.b.write_record("/r", b"1", 0)
        await asyncio.sleep(1)
        assert watch.calls == 1

    run(main())


@pytest.mark.parametrize(("kind", "after_s"), [("watch_late", 2.9), ("watch_lost", 2.9)])
def test_a_late_or_lost_watch_is_called_in_the_end(kind: MetadataFault, after_s: float) -> None:
    async def main() -> None:
        world, watch, other = await World().begin(), Counter(), Counter()
        world.a.watch_record("/r", watch)
        world.a.watch_record("/other", other)
        await world.a.read_record("/r")
        world.server.faults.arm(kind)
        await world.b.write_record("/r", b"1", 0)
        await asyncio.sleep(after_s)
        assert watch.calls == 0
        await asyncio.sleep(5)
        assert watch.calls == 1
        assert other.calls == (kind == "watch_lost"), "who connects anew calls all its watches"
        await world.b.write_record("/r", b"2", 1)
        await asyncio.sleep(1)
        assert watch.calls == 2

    run(main())


def test_a_watch_may_be_called_for_nothing() -> None:
    async def main() -> None:
        world, watch = await World().begin(), Counter()
        world.a.watch_record("/other", watch)
        await world.a.read_record("/r")
        world.server.faults.arm("watch_spurious")
        await world.b.write_record("/r", b"1", 0)
        await asyncio.sleep(1)
        assert watch.calls == 1

    run(main())


@in_world
async def test_watches_are_called_after_a_cut_and_after_a_lost_session(world: World) -> None:
    watch, gone = Counter(), Counter()
    world.a.watch_record("/r", watch)
    unwatch = world.a.watch_record("/r", gone)
    await world.a.read_record("/r")
    unwatch()
    world.server.partition("a")
    await world.b.write_record("/r", b"1", 0)
    await asyncio.sleep(1)
    assert watch.calls == 0
    world.server.heal("a")
    await asyncio.sleep(5)
    assert watch.calls == 1
    world.server.expire("a")
    await world.b.write_record("/r", b"2", 1)
    await asyncio.sleep(TIMING.session_timeout_s)
    assert watch.calls == 2
    await world.b.write_record("/r", b"3", 2)
    await asyncio.sleep(1)
    assert watch.calls == 3
    assert gone.calls == 0


# ---- addresses, history, seeds


@in_world
async def test_an_address_opens_a_handle_for_the_host_that_asks(world: World) -> None:
    store = await open_store(f"{world.server.uri}?root=/x", CountedEnvironment("a"))
    assert store.uri == "simulated:cluster?root=/x"
    assert (await store.read_record("/r")).value == b"old"
    world.server.partition("a")
    with pytest.raises(MetadataUnavailableError):
        await store.read_record("/r")
    with pytest.raises(ConfigurationError, match="nowhere"):
        await open_store("simulated:nowhere", CountedEnvironment("a"))


@in_world
async def test_the_history_has_the_outcome_of_each_call(world: World) -> None:
    a, b, faults = world.a, world.b, world.server.faults
    await a.read_record("/r")
    await a.write_record("/r", b"one", 0)
    for call in (b.write_record("/r", b"two", 0), b.remove_record("/r", 7), b.create_record("/r", b"")):
        with pytest.raises(LogStoreError):
            await call
    faults.arm("metadata_answer_lost")
    with pytest.raises(MetadataOutcomeUnknownError):
        await a.write_record("/r", b"three", 1)
    faults.arm("metadata_unavailable")
    with pytest.raises(MetadataUnavailableError):
        await a.write_record("/r", b"four", 2)
    await b.remove_record("/r", 2)
    with pytest.raises(LogStoreError):
        await b.read_record("/r")
    calls = world.server.history.of("/r")
    assert [(call.client, call.operation, call.expected, call.outcome) for call in calls] == [
        ("a", "create", None, CallOutcome.DONE),
        ("a", "read", None, CallOutcome.DONE),
        ("a", "write", 0, CallOutcome.DONE),
        ("b", "write", 0, CallOutcome.REFUSED),
        ("b", "remove", 7, CallOutcome.REFUSED),
        ("b", "create", None, CallOutcome.REFUSED),
        ("a", "write", 1, CallOutcome.UNKNOWN),
        ("a", "write", 2, CallOutcome.NOT_DONE),
        ("b", "remove", 2, CallOutcome.DONE),
        ("b", "read", None, CallOutcome.ABSENT),
    ]
    assert [(call.version, call.value) for call in calls[:3]] == [(0, b"old"), (0, b"old"), (1, b"one")]
    moments = [moment for call in calls for moment in (call.invoked, call.returned)]
    assert None not in moments and moments == sorted(moments, key=lambda moment: moment or 0)


@in_world
async def test_the_history_has_ledgers_whose_creator_never_got_their_id(world: World) -> None:
    ledger_id, _ = await world.a.create_new_ledger(METADATA)
    world.server.faults.arm("metadata_answer_lost")
    with pytest.raises(MetadataOutcomeUnknownError):
        await world.a.create_new_ledger(METADATA)
    found = await world.b.read_ledger(LedgerId(ledger_id + 1))
    await world.b.write_ledger(LedgerId(ledger_id + 1), found.value, found.version)
    create, read, write = world.server.history.of(f"ledger/{ledger_id + 1}")
    assert (create.outcome, create.value) == (CallOutcome.UNKNOWN, read.value)
    assert (read.version, write.version, write.value) == (0, 1, read.value)


@pytest.mark.parametrize("seed", range(5))
def test_under_all_faults_the_register_keeps_what_each_outcome_promises(seed: int) -> None:
    """Its value lists all writes that took effect, one a version: each that was told so, none that was told not."""

    async def main() -> None:
        world = await race_under_faults(seed)
        final = await world.b.read_record("/r")
        names = final.value.split()
        assert len(names) == final.version + 1 == len(set(names))
        outcomes = set()
        for call in world.server.history.of("/r"):
            if call.operation != "write" or call.value is None:
                continue
            outcomes.add(call.outcome)
            is_in = call.value.split()[-1] in names
            if call.outcome is CallOutcome.DONE:
                assert is_in and names[call.version or 0] == call.value.split()[-1]
            elif call.outcome is not CallOutcome.UNKNOWN:
                assert not is_in
        assert outcomes == {CallOutcome.DONE, CallOutcome.REFUSED, CallOutcome.NOT_DONE, CallOutcome.UNKNOWN}

    run(main())


def test_the_same_seed_does_the_same() -> None:
    def notes(seed: int) -> list[tuple[str, str, str]]:
        async def main() -> list[tuple[str, str, str]]:
            return (await race_under_faults(seed)).notes.lines

        return run(main())

    assert notes(7) == notes(7)
    assert notes(7) != notes(8)
