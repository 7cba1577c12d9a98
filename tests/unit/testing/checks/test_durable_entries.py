"""Which entries a bookie certainly lacks."""

from __future__ import annotations

from pathlib import Path

from dlog.testing.checks.durable_entries import DurableEntries
from tests.helpers.bookie.storage import KEY, add_run, durable, open_storage, run_of
from tests.helpers.simulation.disk import new_disk, run

HOME = Path("/bookie")


def test_what_was_never_sent_is_certainly_not_there() -> None:
    entries, disk = DurableEntries(), new_disk()

    async def main() -> None:
        storage = await open_storage(HOME, disk)
        assert not entries.certainly_lacks(1, 0)  # nobody listens yet
        entries.hold(storage)
        assert entries.certainly_lacks(1, 0)
        state = storage.create_ledger(1, KEY)
        await durable(lambda done: add_run(storage, state, run_of(1, [0, 1]), done))
        assert [entries.certainly_lacks(1, entry_id) for entry_id in range(3)] == [False, False, True]
        entries.release()
        assert not entries.certainly_lacks(1, 2)
        assert not entries.certainly_lacks(2, 0)

    run(main())


def test_a_ledger_of_an_earlier_life_that_is_not_in_memory_may_be_there() -> None:
    entries, disk = DurableEntries(), new_disk()

    async def first_life() -> None:
        storage = await open_storage(HOME, disk)
        entries.hold(storage)
        state = storage.create_ledger(1, KEY)
        await durable(lambda done: add_run(storage, state, run_of(1, [0]), done))
        await storage.close()
        entries.release()

    async def second_life() -> None:
        storage = await open_storage(HOME, disk)
        entries.hold(storage)
        assert storage.ledger_in_memory(1) is None
        assert not entries.certainly_lacks(1, 7)
        assert entries.certainly_lacks(2, 0)

    run(first_life())
    run(second_life())
