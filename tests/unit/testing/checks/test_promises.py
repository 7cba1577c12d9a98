"""What a bookie has answered and does not keep is found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from bookie_server.protocol.fencing import fence
from bookie_server.protocol.long_poll import LacWatchers
from bookie_server.protocol.requests import AddRun
from bookie_server.protocol.service import BookieService
from bookie_server.storage.ledgers.stored_ledger import StoredLedger
from dlog.testing.checks.promises import BookiePromises, c15_no_ledger_ends_below_its_lac
from dlog.testing.disk.disk import SimulatedDisk
from ledger.environment import SystemEnvironment
from ledger.metadata.format.ledger import encode_ledger_metadata
from ledger.wire.status import Status
from tests.helpers.bookie.storage import KEY, EntryRun, durable, make_entry, open_storage, run_of
from tests.helpers.metadata.register_history import CHANGED, CLOSED, history
from tests.helpers.simulation.disk import new_disk, run

HOME = Path("/bookie")


async def start(promises: BookiePromises, disk: SimulatedDisk, *, limbo: bool = False) -> BookieService:
    storage = await open_storage(HOME, disk)
    service = BookieService(storage, LacWatchers(10, 10.0), SystemEnvironment())
    storage._states.set_limbo(limbo)
    promises.hold(service)
    return service


async def add(service: BookieService, *ids: int, recovery: bool = False, lac: int | None = None) -> Status:
    answers: list[Status] = []
    entries = (
        run_of(1, ids) if lac is None else EntryRun(list(ids), [make_entry(1, id_, lac=lac) for id_ in ids])
    )

    def call(on_durable: Callable[[Exception | None], None]) -> None:
        def done(_runs: Sequence[AddRun], status: Status, _refused: frozenset[int]) -> None:
            answers.append(status)
            on_durable(None)

        service.add([AddRun(1, KEY, recovery, recovery, entries.ids, entries.entries, ())], done)

    await durable(call)
    return answers[0]


async def fence_it(service: BookieService) -> None:
    await durable(lambda done: fence(service, 1, KEY, lambda _: done(None)))


def state_of(service: BookieService) -> StoredLedger:
    state = service.storage.ledger(1)
    assert state is not None
    return state


def after_restart(harm: Callable[[SimulatedDisk], None]) -> list[str]:
    """Adds, a fence, a restart: what is found if something happens to the disk in between."""
    promises, disk = BookiePromises("b"), new_disk()

    async def first_life() -> None:
        service = await start(promises, disk)
        assert await add(service, 0, 1, 2) is Status.EOK
        harm(disk)
        await fence_it(service)
        assert await add(service, 3) is Status.EFENCED
        assert await add(service, 3, recovery=True) is Status.EOK

    async def second_life() -> None:
        await (await start(promises, disk)).storage.close()

    run(first_life())
    disk.power_cut()
    run(second_life())
    return promises.broken


def test_a_bookie_that_keeps_all_is_sound() -> None:
    assert after_restart(lambda _: None) == []


def test_what_is_missing_after_a_restart_is_found() -> None:
    broken = after_restart(lambda disk: setattr(disk, "power_cut", disk_as_it_is_now(disk)))
    assert [each.partition("ledger 1")[0] for each in broken] == [
        "c15_promises_are_kept: b forgot the fence of "
    ]


def disk_as_it_is_now(disk: SimulatedDisk) -> Callable[[], None]:
    """A power cut that takes away also what is synced from now on."""
    image = next(disk.legal_images(1))
    return lambda: disk.restore(image)


def test_entries_and_the_lac_in_them_are_promises() -> None:
    promises, disk = BookiePromises("b"), new_disk()

    async def main() -> None:
        service = await start(promises, disk)
        await add(service, 0, 1, 2)
        state = state_of(service)
        for name, value in (("lac", 0), ("last_entry", 1)):
            before = getattr(state, name)
            setattr(state, name, value)
            promises.hold(service)
            setattr(state, name, before)

    run(main())
    assert len(promises.broken) == 2
    assert promises.reported_lacs == {1: 1}


def test_the_lac_in_an_entry_that_recovery_repeats_is_no_promise() -> None:
    promises, disk = BookiePromises("b"), new_disk()

    async def main() -> None:
        service = await start(promises, disk)
        await add(service, 0)
        await add(service, 0, recovery=True, lac=0)
        promises.hold(service)

    run(main())
    assert promises.broken == []


def test_an_add_after_the_fence_was_answered_is_found() -> None:
    promises, disk = BookiePromises("b"), new_disk()

    async def main() -> None:
        service = await start(promises, disk)
        await fence_it(service)
        state_of(service).fenced = False
        assert await add(service, 0) is Status.EOK

    run(main())
    assert promises.broken == [
        "c15_promises_are_kept: b accepted an add to ledger 1 after it had confirmed a fence"
    ]


def test_not_even_damage_excuses_a_bookie_that_knows_of_it() -> None:
    promises, disk = BookiePromises("b"), new_disk()

    async def main() -> None:
        service = await start(promises, disk)
        await add(service, 0)
        await fence_it(service)
        state_of(service).fenced = False
        await add(service, 1)
        disk.process_crash()
        service = await start(promises, disk, limbo=True)
        service.storage._states.set_limbo(False)
        state_of(service).fenced = False
        await add(service, 2)

    run(main())
    assert promises.broken == 2 * promises.broken_in_limbo
    assert len(promises.broken_in_limbo) == 1


@pytest.mark.parametrize("exists", [True, False])
def test_a_ledger_that_is_deleted_although_metadata_has_it_is_found(exists: bool) -> None:
    promises, disk = BookiePromises("b", lambda ledger_id: exists and ledger_id == 1), new_disk()

    async def main() -> None:
        service = await start(promises, disk)
        await add(service, 0)
        await durable(lambda done: service.storage.delete_ledger(1, done))

    run(main())
    assert promises.broken == ["c15_promises_are_kept: b deleted ledger 1, which still has metadata"] * exists


@pytest.mark.parametrize(("told", "sound"), [({}, True), ({1: 9}, True), ({1: 10}, False), ({2: 99}, True)])
def test_a_ledger_that_ends_below_a_lac_is_found(told: dict[int, int], sound: bool) -> None:
    recorded = history("ledger/1", *map(encode_ledger_metadata, (CHANGED, CLOSED)))
    assert (not list(c15_no_ledger_ends_below_its_lac(recorded, told))) == sound


def test_a_deleted_ledger_that_is_there_again_after_a_restart_is_found() -> None:
    promises, disk = BookiePromises("b"), new_disk()

    async def main() -> None:
        service = await start(promises, disk)
        await add(service, 0)
        await durable(lambda done: service.storage.delete_ledger(1, done))
        promises.hold(service)
        assert promises.broken == []
        state_of(service).deleted = False
        promises.hold(service)

    run(main())
    assert promises.broken == ["c15_promises_are_kept: b has ledger 1 again, which it had deleted"]


def test_a_fence_that_is_taken_for_durable_although_it_failed_is_found() -> None:
    promises, disk = BookiePromises("b"), new_disk()

    async def main() -> None:
        service = await start(promises, disk)
        await add(service, 0)
        storage = service.storage

        def fence_and_fail(state: StoredLedger, on_durable: Callable[[Exception | None], None]) -> None:
            state.fenced = state.fence_durable = True
            on_durable(OSError("no space"))

        storage.fence = fence_and_fail  # type: ignore[method-assign]
        promises.hold(service)
        await fence_it(service)

    run(main())
    assert promises.broken == [
        "c15_promises_are_kept: b takes the fence of ledger 1 for durable, although it is not"
    ]
