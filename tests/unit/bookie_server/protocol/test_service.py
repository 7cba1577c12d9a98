"""Adds and explicit LACs that arrived together: each has its own outcome, and those that succeed have one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bookie_server.disk.system_disk import SystemDisk
from bookie_server.protocol.fencing import fence
from bookie_server.protocol.long_poll import LacWatchers
from bookie_server.protocol.requests import AddRun, Adds, Force, Read, Request, WriteLacs
from bookie_server.protocol.serve import WAITING_BYTES, serve
from bookie_server.protocol.service import BATCH_ENTRIES_MAX, BookieService
from bookie_server.storage.ledger_storage import LedgerStorage
from bookie_server.storage.stored_entry import StoredEntry
from dlog.testing.disk.disk import SimulatedDisk
from ledger.environment import SystemEnvironment
from ledger.wire.status import Status
from ledger.wire.write_lac import WrittenLac
from tests.helpers.bookie.storage import (
    KEY,
    add,
    found_ids,
    make_entry,
    open_storage,
    run_of,
)
from tests.helpers.bookie.storage import fence as fence_storage
from tests.helpers.simulation.disk import new_disk, run

HOME = Path("/bookie")
Outcome = tuple[list[tuple[int, list[int]]], Status, frozenset[int]]
"""Ledgers and ids of the runs, their status, and the conflicts."""


def new_service(storage: LedgerStorage) -> BookieService:
    return BookieService(storage, LacWatchers(10, 10.0), SystemEnvironment())


def run_for(ledger_id: int, *ids: int, key: bytes = KEY, recovery: bool = False) -> AddRun:
    entries = run_of(ledger_id, ids)
    return AddRun(ledger_id, key, recovery, recovery, entries.ids, entries.entries, ())


async def outcomes_of(service: BookieService, runs: Sequence[AddRun]) -> list[Outcome]:
    """Of one block, once every run has been answered."""
    outcomes: list[Outcome] = []
    unanswered, all_answered = len(runs), asyncio.Event()

    def done(some: Sequence[AddRun], status: Status, conflicts: frozenset[int]) -> None:
        nonlocal unanswered
        outcomes.append(([(each.ledger_id, each.ids) for each in some], status, conflicts))
        unanswered -= len(some)
        if not unanswered:
            all_answered.set()

    service.add(runs, done)
    await all_answered.wait()
    assert not unanswered
    return outcomes


async def stored(storage: LedgerStorage) -> dict[int, list[int]]:
    return {ledger_id: await found_ids(storage, ledger_id, 10) for ledger_id in storage.ledger_ids()}


def test_new_entries_of_many_ledgers_have_one_outcome() -> None:
    disk = new_disk()

    async def main() -> None:
        storage = await open_storage(HOME, disk)
        runs = [run_for(ledger_id, 0, 1) for ledger_id in range(20)]
        outcomes = await outcomes_of(new_service(storage), runs)
        assert outcomes == [([(ledger_id, [0, 1]) for ledger_id in range(20)], Status.EOK, frozenset())]
        disk.power_cut()

    async def restarted() -> None:
        storage = await open_storage(HOME, disk)
        assert await stored(storage) == {ledger_id: [0, 1] for ledger_id in range(20)}
        await storage.close()

    run(main())
    run(restarted())


def test_what_cannot_be_taken_is_refused_and_the_rest_is_stored() -> None:
    disk = new_disk()

    async def main() -> None:
        storage = await open_storage(HOME, disk)
        for ledger_id in range(1, 6):
            await add(storage, storage.create_ledger(ledger_id, KEY), [0])
        fenced, deleted = storage.ledger(3), storage.ledger(4)
        assert fenced is not None and deleted is not None
        await fence_storage(storage, fenced)
        storage.delete_ledger(4, lambda _: None)
        other_bytes = AddRun(
            5, KEY, False, False, [0, 1], [make_entry(5, 0, payload=b"?"), make_entry(5, 1)], ()
        )
        runs = [
            run_for(1, 1),
            run_for(2, 1, key=b"w" * 20),
            run_for(3, 1),
            run_for(3, 2, recovery=True),
            run_for(4, 1),
            other_bytes,
            run_for(1, 0, recovery=True),
            run_for(6, 0),
            run_for(6, 1, key=b"w" * 20),
        ]
        outcomes = await outcomes_of(new_service(storage), runs)
        assert sorted(outcomes, key=str) == sorted(
            [
                ([(1, [1]), (3, [2]), (6, [0])], Status.EOK, frozenset()),
                ([(2, [1])], Status.EUA, frozenset()),
                ([(3, [1])], Status.EFENCED, frozenset()),
                ([(4, [1])], Status.EFENCED, frozenset()),
                ([(5, [0, 1])], Status.EOK, frozenset({0})),
                ([(1, [0])], Status.EOK, frozenset()),
                ([(6, [1])], Status.EUA, frozenset()),
            ],
            key=str,
        )
        disk.power_cut()

    async def restarted() -> None:
        storage = await open_storage(HOME, disk)
        assert await stored(storage) == {1: [0, 1], 2: [0], 3: [0, 2], 5: [0, 1], 6: [0]}
        await storage.close()

    run(main())
    run(restarted())


def test_a_repetition_is_answered_when_what_it_repeats_is_durable() -> None:
    """Both come in one block, the repetition as a recovery's add; neither is answered before the sync."""
    disk = new_disk()

    async def main() -> None:
        storage = await open_storage(HOME, disk)
        first, again = run_for(1, 0, 1), run_for(1, 1, recovery=True)
        outcomes = await outcomes_of(new_service(storage), [again, first])
        assert [each[1] for each in outcomes] == [Status.EOK, Status.EOK]
        disk.power_cut()

    async def restarted() -> None:
        storage = await open_storage(HOME, disk)
        assert await stored(storage) == {1: [0, 1]}
        await storage.close()

    run(main())
    run(restarted())


def test_a_fence_is_answered_after_all_adds_of_the_block_before_it() -> None:
    order: list[object] = []

    async def main() -> None:
        storage = await open_storage(HOME, new_disk())
        service = new_service(storage)
        await outcomes_of(service, [run_for(1, 0), run_for(2, 0)])
        answered = asyncio.Event()
        service.add([run_for(1, 1), run_for(2, 1)], lambda _runs, status, _conflicts: order.append(status))

        def fenced(_: object) -> None:
            order.append("fenced")
            answered.set()

        fence(service, 1, KEY, fenced)
        await answered.wait()
        [refused] = await outcomes_of(service, [run_for(1, 2)])
        assert refused[1] is Status.EFENCED
        await storage.close()

    run(main())
    assert order == [Status.EOK, "fenced"]


def test_the_fence_of_an_unknown_ledger_refuses_its_first_add_and_survives_a_power_cut() -> None:
    disk = new_disk()

    async def main() -> None:
        service = new_service(await open_storage(HOME, disk))
        answered = asyncio.Event()
        fence(service, 1, KEY, lambda _: answered.set())
        await answered.wait()
        assert [each[1] for each in await outcomes_of(service, [run_for(1, 0)])] == [Status.EFENCED]
        disk.power_cut()

    async def restarted() -> None:
        storage = await open_storage(HOME, disk)
        runs = [run_for(1, 0), run_for(1, 0, recovery=True)]
        outcomes = await outcomes_of(new_service(storage), runs)
        assert [each[1] for each in outcomes] == [Status.EFENCED, Status.EOK]
        await storage.close()

    run(main())
    run(restarted())


def test_a_fence_that_the_journal_may_lack_is_not_confirmed() -> None:
    disk, answers = new_disk(), list[object]()

    async def main() -> None:
        storage = await open_storage(HOME, disk)
        service = new_service(storage)
        await outcomes_of(service, [run_for(1, 0)])
        disk.faults.arm("sync_error", "journal")
        answered = asyncio.Event()

        def fenced(answer: object) -> None:
            answers.append(answer)
            answered.set()

        fence(service, 1, KEY, fenced)
        await answered.wait()
        await storage.close()

    run(main())
    assert answers == [Status.EIO]


def test_on_a_full_disk_no_run_of_the_block_succeeds() -> None:
    disk = new_disk()

    def large(entry_id: int) -> list[AddRun]:
        entries = {each: make_entry(each, entry_id, payload=bytes(60_000)) for each in (1, 2)}
        return [AddRun(each, KEY, False, False, [entry_id], [entry], ()) for each, entry in entries.items()]

    async def main() -> None:
        storage = await open_storage(HOME, disk, reserve_bytes=0)
        service = new_service(storage)
        await outcomes_of(service, large(0))
        disk.capacity_bytes = disk.used_bytes
        outcomes = [outcome for each in range(1, 5) for outcome in await outcomes_of(service, large(each))]
        assert outcomes[-1] == ([(1, [4]), (2, [4])], Status.EREADONLY, frozenset())
        disk.capacity_bytes = None
        await storage.close()

    run(main())


# ---- explicit LACs


def packet(ledger_id: int, lac: int) -> bytes:
    return ledger_id.to_bytes(8, "big") + lac.to_bytes(8, "big") + b"DIGS"


def lac_of(ledger_id: int, lac: int, key: bytes = KEY) -> WrittenLac:
    return WrittenLac(b"\x01", bytes([ledger_id]), ledger_id, key, packet(ledger_id, lac))


async def lac_outcomes(service: BookieService, lacs: Sequence[WrittenLac]) -> list[tuple[list[int], Status]]:
    outcomes: list[tuple[list[int], Status]] = []
    unanswered, all_answered = len(lacs), asyncio.Event()

    def done(some: Sequence[WrittenLac], status: Status) -> None:
        nonlocal unanswered
        outcomes.append(([each.ledger_id for each in some], status))
        unanswered -= len(some)
        if not unanswered:
            all_answered.set()

    service.write_lacs(lacs, done)
    await all_answered.wait()
    assert not unanswered
    return outcomes


def test_lacs_of_many_ledgers_are_durable_when_they_are_answered() -> None:
    disk = new_disk()

    async def main() -> None:
        service = new_service(await open_storage(HOME, disk))
        await outcomes_of(service, [run_for(ledger_id, 0, 1, 2) for ledger_id in (1, 2, 3)])
        short = lac_of(3, 0)._replace(packet=b"short")
        lacs = [lac_of(1, 2), lac_of(2, 1, key=b"w" * 20), lac_of(2, 2), short, lac_of(1, 1), lac_of(9, 0)]
        assert await lac_outcomes(service, lacs) == [
            ([2], Status.EUA),
            ([3], Status.EBADREQ),
            ([1, 2, 1, 9], Status.EOK),
        ]
        disk.power_cut()

    async def restarted() -> None:
        storage = await open_storage(HOME, disk)
        found = {each: storage.ledger(each) for each in (1, 2, 3, 9)}
        packets = {each: state and state.explicit_lac for each, state in found.items()}
        assert packets == {1: packet(1, 2), 2: packet(2, 2), 3: None, 9: packet(9, 0)}
        await storage.close()

    run(main())
    run(restarted())


def test_nothing_is_answered_well_after_the_storage_has_failed(tmp_path: Path) -> None:
    disk: SimulatedDisk = new_disk()

    async def main() -> None:
        storage = await open_storage(HOME, disk)
        service = new_service(storage)
        await outcomes_of(service, [run_for(1, 0)])
        await storage.close()
        assert await outcomes_of(service, [run_for(1, 1), run_for(1, 0, recovery=True)]) == [
            ([(1, [1]), (1, [0])], Status.EIO, frozenset())
        ]
        assert await lac_outcomes(service, [lac_of(1, 0)]) == [([1], Status.EIO)]

    run(main())


# ---- and the connection


class RecordingPeer:
    """What `serve` asks of a connection for writes."""

    def __init__(self, service: BookieService) -> None:
        self.service = service
        self.unanswered_bytes = 0
        self.sent: list[bytes] = []

    def adds_accepted(self, byte_count: int) -> None:
        self.unanswered_bytes += byte_count

    def adds_answered(self, byte_count: int) -> None:
        self.unanswered_bytes -= byte_count

    def may_answer(self, _urgent: bool) -> bool:
        return True

    def send(self, *parts: bytes | memoryview) -> None:
        self.sent += map(bytes, parts)


class StatusEncoder:
    def added(self, runs: Sequence[AddRun], status: Status, _conflicts: frozenset[int]) -> bytes:
        return b"%d adds %d" % (len(runs), status)

    def written(self, lacs: Sequence[WrittenLac], status: Status) -> bytes:
        return b"%d LACs %d" % (len(lacs), status)

    def forced(self, status: Status) -> bytes:
        return b"forced %d" % status

    def refusal(self, status: Status) -> bytes:
        return b"refused %d" % status

    def entry(self, entry: StoredEntry, _lac: int | None) -> list[StoredEntry]:
        return [b"%d bytes" % len(entry)]


def test_adds_take_of_the_connections_budget_until_the_last_one_is_answered() -> None:
    async def main() -> None:
        storage = await open_storage(HOME, new_disk())
        peer: Any = RecordingPeer(new_service(storage))
        runs = [run_for(1, 0), run_for(-1, 0), run_for(2, 0)]
        serve(peer, Adds(runs, 300, StatusEncoder()))
        assert peer.sent == [b"1 adds %d" % Status.EBADREQ]
        assert peer.unanswered_bytes == 300 + 3 * WAITING_BYTES
        serve(peer, WriteLacs([lac_of(1, 0)], StatusEncoder()))
        await storage.checkpoint()
        assert peer.sent[1:] == [b"2 adds %d" % Status.EOK, b"1 LACs %d" % Status.EOK]
        assert peer.unanswered_bytes == 0
        await storage.close()

    run(main())


def fencing_read(ledger_id: int) -> Read:
    encoder: Any = StatusEncoder()
    return Read(ledger_id=ledger_id, entry_id=0, fence_key=KEY, urgent=True, encoder=encoder)


@pytest.mark.parametrize(
    ("request_", "count", "answers"),
    [
        (Force(StatusEncoder()), 1, [b"forced %d" % Status.EOK]),
        (fencing_read(1), 1, [b"%d bytes" % len(make_entry(1, 0))]),
        (
            WriteLacs([lac_of(1, 0), lac_of(1, 0, key=bytes(20)), lac_of(2, 0)], StatusEncoder()),
            2,
            [b"1 LACs %d" % Status.EUA, b"2 LACs %d" % Status.EOK],
        ),
    ],
    ids=["force", "fence", "explicit LACs"],
)
def test_what_waits_for_the_journal_takes_of_the_connections_budget(
    request_: Request, count: int, answers: list[bytes]
) -> None:
    """A peer that sends it while one sync takes long makes the bookie hold what answers it."""

    async def main() -> None:
        storage = await open_storage(HOME, new_disk())
        await add(storage, storage.create_ledger(1, KEY), [0])
        peer: Any = RecordingPeer(new_service(storage))
        for waiting in range(1, 4):
            serve(peer, request_)
            assert peer.unanswered_bytes == waiting * count * WAITING_BYTES
        await storage.checkpoint()
        assert sorted(peer.sent) == sorted(answers * 3)
        assert peer.unanswered_bytes == 0
        await storage.close()

    run(main())


def test_a_fence_that_waits_for_nothing_takes_nothing_of_the_connections_budget() -> None:
    async def main() -> None:
        storage = await open_storage(HOME, new_disk())
        state = storage.create_ledger(1, KEY)
        await add(storage, state, [0])
        await fence_storage(storage, state)
        peer: Any = RecordingPeer(new_service(storage))
        serve(peer, fencing_read(1))
        serve(peer, fencing_read(-1))
        assert peer.sent == [b"%d bytes" % len(make_entry(1, 0)), b"refused %d" % Status.EBADREQ]
        assert peer.unanswered_bytes == 0
        await storage.close()

    run(main())


@pytest.mark.parametrize("max_count", [0, -1, 2**31 - 1])
async def test_a_batch_read_has_a_maximum_number_of_entries(tmp_path: Path, max_count: int) -> None:
    """Whatever is asked for, and however small they are: others are served after one answer."""
    storage = await open_storage(tmp_path)
    service = new_service(storage)
    await outcomes_of(service, [run_for(1, *range(BATCH_ENTRIES_MAX + 2))])
    ledger = storage.ledger(1)
    assert ledger is not None
    status, entries = await service.read_batch(ledger, 1, max_count, 100 << 20)
    assert (status, len(entries)) == (Status.EOK, BATCH_ENTRIES_MAX)
    status, entries = await service.read_batch(ledger, 1 + len(entries), max_count, 100 << 20)
    assert (status, len(entries)) == (Status.EOK, 1)
    await storage.close()


async def test_disk_space_is_that_of_the_ledger_directories_by_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two equal disks are two, one that fills up between two measurements is one; the journal's does not count."""
    home, more = tmp_path, tuple(tmp_path / name for name in ("twin", "third", "on-third"))
    spaces = {"journal": (900, 0), "ledgers": (100, 40), "twin": (100, 40)}
    devices = {"journal": 1, "ledgers": 2, "twin": 3, "third": 4, "on-third": 4}
    left = iter(range(500, 0, -1))

    def owner(directory: Path) -> str:
        return directory.relative_to(home).parts[0]

    disk = SystemDisk()
    monkeypatch.setattr(disk, "free_space", lambda path: spaces.get(owner(path)) or (1000, next(left)))
    monkeypatch.setattr(disk, "device", lambda path: devices[owner(path)], raising=False)
    storage = await open_storage(
        home, disk, more_ledger_directories=more, disk_usage_max=0.95, disk_usage_writable=0.95
    )
    total, free = new_service(storage).disk_room()
    assert total == 1200 and 80 < free < 580
    assert not storage.writable, "the journal's disk is full"
    spaces["journal"] = (900, 800)
    await storage.check_disk()
    assert storage.writable
    assert new_service(storage).disk_room().total_bytes == 1200
    await storage.close()
