"""Loops around a compare-and-set pause between their rounds, and end with an error that says what is known."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from dlog.client import LogClient
from dlog.metadata.store import LogMetadataStore
from dlog.metadata.value import change_value
from dlog.model import LogName, MessageId
from ledger.environment import SystemEnvironment
from ledger.errors import ContendedError, LogStoreError, MetadataOutcomeUnknownError
from ledger.metadata.drivers import open_store
from ledger.metadata.rounds import ROUNDS_MAX, Rounds
from ledger.model import Versioned
from tests.helpers.log.scripted_log import scripted_log
from tests.helpers.log.unsure_store import APPLIED, DROPPED, UnsureStore

ORDERS = LogName(namespace="default", name="orders")
LIMIT_S = 30.0


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rounds within a fraction of a second."""
    monkeypatch.setattr("ledger.metadata.rounds._PAUSE_MAX_S", 0.005)


async def unsure(name: str) -> tuple[UnsureStore, LogMetadataStore]:
    inner = await open_store(f"memory:rounds-{name}")
    await inner.init_cluster()
    store = UnsureStore(inner)
    return store, LogMetadataStore(store, SystemEnvironment())


async def fails(work: Awaitable[Any], error: type[LogStoreError]) -> LogStoreError:
    async with asyncio.timeout(LIMIT_S):
        with pytest.raises(error) as caught:
            await work
    return caught.value


@pytest.mark.usefixtures("short_pauses")
async def test_a_create_whose_answers_are_all_lost_ends_with_outcome_unknown() -> None:
    store, logs = await unsure("create")
    store.faults = [DROPPED] * 1000
    await fails(logs.create(ORDERS), MetadataOutcomeUnknownError)
    assert 1000 - len(store.faults) == ROUNDS_MAX


@pytest.mark.usefixtures("short_pauses")
async def test_the_end_of_a_name_whose_answers_are_all_lost_ends() -> None:
    store, logs = await unsure("end")
    ref = await logs.create(ORDERS)
    store.faults = [DROPPED] * 1000
    await fails(logs.end_name(ref), MetadataOutcomeUnknownError)
    assert 1000 - len(store.faults) == ROUNDS_MAX


@pytest.mark.usefixtures("short_pauses")
async def test_a_name_whose_setting_is_never_answered_ends() -> None:
    store, logs = await unsure("set")
    store.faults = [None, None, *[DROPPED] * 1000]
    await fails(logs.create(ORDERS), MetadataOutcomeUnknownError)


@pytest.mark.parametrize("what", ["create", "end"])
async def test_a_lost_answer_stays_unknown_if_the_store_is_then_away(what: str) -> None:
    """The name was set, so the error must not be that nothing was changed."""
    store, logs = await unsure(f"away-{what}")

    async def leave() -> None:
        store.away = True

    store.before_fault = leave
    if what == "create":
        store.faults = [None, None, APPLIED]
        await fails(logs.create(ORDERS), MetadataOutcomeUnknownError)
    else:
        ref = await logs.create(ORDERS)
        store.faults = [APPLIED]
        await fails(logs.end_name(ref), MetadataOutcomeUnknownError)


@pytest.mark.usefixtures("short_pauses")
async def test_a_lost_answer_stays_unknown_if_others_then_change_the_value_in_every_round() -> None:
    store, _ = await unsure("contended")
    await store.create_record("/k", b"0")

    async def decide(found: Versioned[bytes] | None) -> bytes:
        assert found is not None
        await store._inner.write_record("/k", found.value + b" ", found.version)
        return b"1"

    async def decide_first(found: Versioned[bytes] | None) -> bytes:
        return b"1" if found is not None and found.value == b"0" else await decide(found)

    store.faults = [APPLIED]
    change = change_value(store, SystemEnvironment(), "/k", "k", decide_first)  # type: ignore[arg-type]
    await fails(change, MetadataOutcomeUnknownError)


def before_each(client: LogClient, happen: Callable[[], Awaitable[Any]]) -> None:
    """Let it happen before every compare-and-set of the client."""
    logs: Any = client.logs
    change = logs.compare_and_set

    async def late(*args: Any, **options: Any) -> Any:
        await happen()
        return await change(*args, **options)

    logs.compare_and_set = late


@pytest.mark.usefixtures("short_pauses")
async def test_a_shrink_that_always_comes_too_late_ends() -> None:
    """Somebody changes the record in each round: nothing was done, and the error says so."""
    async with scripted_log() as log, log.client() as client, log.client() as other:
        writer = await client.open_writer("orders", create=True)
        last = await writer.append(b"one")
        ref = await other.logs.find(other.name("orders"))

        async def touch() -> None:
            read = await other.logs.read(ref)
            nonce = other.ledgers.environment.token()
            await other.logs.compare_and_set(ref, replace(read.value, nonce=nonce), read.version)

        before_each(client, touch)
        error = await fails(client.shrink("orders", last), ContendedError)
        assert error.facts["rounds"] == ROUNDS_MAX
        assert (await other.describe("orders")).record.trim_before == MessageId(0, 0, 0)


async def test_an_administrator_does_not_wait_indefinitely_for_a_lost_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dlog.admin.CHANGE_S_MAX", 0.3)
    store, logs = await unsure("doubt")
    async with LogClient(store) as client:
        ref = await logs.create(ORDERS)
        assert ref.name == ORDERS
        store.faults = [DROPPED] * 1000

        async def go_away() -> None:
            store.away = True

        store.before_fault = go_away
        monkeypatch.setattr("dlog.admin.LogAdmin._check_limit", _nothing)
        await fails(client.shrink("orders", MessageId(1, 0, 0)), MetadataOutcomeUnknownError)
        store.away = False


async def _nothing(*args: Any) -> None:
    """Any id may be trimmed to."""


async def test_pauses_grow_and_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that meet again and again would otherwise go on doing so."""
    waited: list[float] = []

    async def note(pause_s: float) -> None:
        waited.append(pause_s)

    monkeypatch.setattr("ledger.metadata.rounds.asyncio.sleep", note)
    rounds = Rounds(SystemEnvironment(), "a value")
    for _ in range(6):
        await rounds.again()
    assert waited[-1] > waited[0] > 0
    assert len(set(waited)) == len(waited)
