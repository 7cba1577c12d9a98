"""A bookie that denies what it has acknowledged, or returns another entry, is found by the answer itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from bookie_server.protocol.long_poll import LacWatchers
from bookie_server.protocol.service import BookieService
from bookie_server.storage.ledgers.stored_ledger import StoredLedger
from dlog.testing.checks.instants.denials import AcknowledgedEntries
from ledger.environment import SystemEnvironment
from ledger.wire.constants import LAST_ENTRY
from ledger.wire.status import Status
from tests.helpers.bookie.storage import KEY, add, make_entry, open_storage

LEDGER = 1


async def listened(directory: Path) -> tuple[BookieService, AcknowledgedEntries, list[str]]:
    """A service with entries 0 to 2 of one ledger, which it has acknowledged, and what is found wrong with it."""
    storage = await open_storage(directory)
    service = BookieService(storage, LacWatchers(10, 10.0), SystemEnvironment())
    broken: list[str] = []
    entries = AcknowledgedEntries(broken.append)
    await add(storage, storage.create_ledger(LEDGER, KEY), range(3))
    entries.acknowledged(LEDGER, [0, 1, 2])
    return service, entries, broken


async def ask_everything(service: BookieService) -> None:
    ledger = service.ledger(LEDGER)
    assert ledger is not None
    for entry_id in (0, 2, LAST_ENTRY):
        service.read_cached(ledger, entry_id)
        await service.read(ledger, entry_id)
        await service.read_batch(ledger, entry_id, 3, 10_000)


def found(directory: Path, harm: Callable[[Any], Awaitable[None]]) -> list[str]:
    async def main() -> list[str]:
        service, entries, broken = await listened(directory)
        await harm(service)
        entries.listen(service)
        await ask_everything(service)
        await service.storage.close()
        return broken

    return asyncio.run(main())


async def sound(_service: Any) -> None:
    """No harm."""


async def lose_the_last_entry(service: Any) -> None:
    state = service.storage.ledger(LEDGER)
    state.last_entry = 1


async def lose_everything(service: Any) -> None:
    state = service.storage.ledger(LEDGER)
    state.last_entry = -1
    service.read_cached = lambda _ledger, _entry_id: None
    service.storage._caches.entry = lambda _ledger_id, _entry_id: None


async def return_another(service: Any) -> None:
    async def read_batch(*_: object) -> tuple[Status, list[bytes]]:
        return Status.EOK, [make_entry(LEDGER, 0), make_entry(LEDGER, 2)]

    service.read_batch = read_batch


def test_a_bookie_that_returns_what_it_has_is_sound(tmp_path: Path) -> None:
    assert found(tmp_path, sound) == []


@pytest.mark.parametrize(
    ("harm", "what"),
    [
        (lose_the_last_entry, "returned 1:1 as its last entry, but has acknowledged 2"),
        (lose_everything, "denies entry 0 of ledger 1, which it has acknowledged"),
        (lose_everything, "denies any entry of ledger 1, which it has acknowledged"),
        (return_another, "returned entry 1:2 for 1:1"),
        (return_another, "returned 1:0 as its last entry, but has acknowledged 2"),
    ],
)
def test_an_answer_that_contradicts_an_acknowledgement_is_found(
    tmp_path: Path, harm: Callable[[Any], Awaitable[None]], what: str
) -> None:
    assert what in found(tmp_path, harm)


def test_a_ledger_that_is_unknown_all_at_once_is_found(tmp_path: Path) -> None:
    async def main() -> list[str]:
        service, entries, broken = await listened(tmp_path)
        unknown: Any = service
        unknown.ledger = lambda _ledger_id: None
        entries.listen(service)
        service.ledger(LEDGER)
        service.ledger(LEDGER + 1)
        return broken

    assert asyncio.run(main()) == ["does not know ledger 1, of which it has acknowledged entries"]


def test_nothing_is_promised_of_a_deleted_ledger_and_late_answers_change_nothing(tmp_path: Path) -> None:
    async def main() -> list[str]:
        service, entries, broken = await listened(tmp_path)
        entries.listen(service)
        ledger = service.ledger(LEDGER)
        assert isinstance(ledger, StoredLedger)
        entries.forget(LEDGER)
        entries.acknowledged(LEDGER, [3])
        await lose_everything(service)
        assert (await service.read(ledger, 3)).status is Status.ENOENTRY
        return broken

    assert asyncio.run(main()) == []
