"""Texts stored with a log, in a metadata store that loses answers."""

from __future__ import annotations

import asyncio

import pytest

from dlog.core import metadata_keys
from dlog.errors import LogNotFoundError, RecordFormatError
from dlog.metadata.log_properties import LogProperties
from dlog.metadata.log_ref import LogRef
from dlog.metadata.store import LogMetadataStore
from dlog.model import LogName
from dlog.testing import SimulatedCluster, simulate
from ledger.environment import SystemEnvironment
from ledger.errors import ConfigurationError, MetadataOutcomeUnknownError
from ledger.metadata.drivers import open_store
from tests.helpers.log.unsure_store import APPLIED, AWAY, DROPPED, LATE, UnsureStore

ENVIRONMENT = SystemEnvironment()


async def properties_on(name: str) -> tuple[LogProperties, UnsureStore, LogMetadataStore, LogRef]:
    inner = await open_store(f"memory:properties-{name}")
    await inner.init_cluster()
    store = UnsureStore(inner)
    logs = LogMetadataStore(store, ENVIRONMENT)
    ref = await logs.create(LogName(namespace="default", name="orders"))
    return LogProperties(store, ENVIRONMENT), store, logs, ref


async def test_they_are_set_changed_and_removed_one_by_one() -> None:
    properties, _, _, ref = await properties_on("plain")
    assert await properties.read(ref) == {}
    assert await properties.update(ref, {"team": "billing", "schema": "3"}) == {
        "team": "billing",
        "schema": "3",
    }
    assert await properties.update(ref, {"schema": None, "absent": None}) == {"team": "billing"}
    assert await properties.read(ref) == {"team": "billing"}


@pytest.mark.parametrize("fault", [APPLIED, DROPPED, LATE])
async def test_a_change_survives_a_lost_answer(fault: str) -> None:
    properties, store, _, ref = await properties_on(f"unsure-{fault}")
    for expected in ({"a": "1"}, {"a": "1", "b": "2"}):
        store.faults = [fault]
        assert await properties.update(ref, expected) == expected
        assert await properties.read(ref) == expected


async def test_changes_of_two_programs_do_not_undo_each_other() -> None:
    properties, store, _, ref = await properties_on("both")
    await properties.update(ref, {"a": "0"})

    async def other() -> None:
        store.before_fault = None
        await properties.update(ref, {"b": "2"})

    store.faults, store.before_fault = [DROPPED], other
    assert await properties.update(ref, {"a": "1"}) == {"a": "1", "b": "2"}


async def test_an_outcome_that_cannot_be_looked_up_is_unknown() -> None:
    properties, store, _, ref = await properties_on("unknown")

    async def go_away() -> None:
        store.reads_away = 1

    store.faults, store.before_fault = [APPLIED], go_away
    with pytest.raises(MetadataOutcomeUnknownError):
        await properties.update(ref, {"a": "1"})
    assert await properties.read(ref) == {"a": "1"}


async def test_damaged_ones_are_reported_and_left_as_they_are() -> None:
    properties, store, _, ref = await properties_on("damaged")
    await properties.update(ref, {"a": "1"})
    key = metadata_keys.properties_key(ref.root, ref.name, ref.log_uuid)
    await store.write_record(key, b"damaged", 0)
    for call in (properties.read(ref), properties.update(ref, {"b": "2"})):
        with pytest.raises(RecordFormatError) as damaged:
            await call
        assert damaged.value.key == key
    assert (await store.read_record(key)).value == b"damaged"


async def test_they_end_with_their_log() -> None:
    properties, store, logs, ref = await properties_on("ended")
    await properties.update(ref, {"a": "1"})
    await logs.remove_record(ref)
    assert await store.list_records(f"{metadata_keys.name_key(ref.root, ref.name)}/{ref.log_uuid}") == []


def test_the_client_has_them_by_name_of_the_log() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            writer = await client.open_writer("orders", create=True)
            updates = [client.update_properties("orders", {str(number): "x"}) for number in range(8)]
            await asyncio.gather(*updates)
            assert sorted(await client.properties("orders")) == [str(number) for number in range(8)]
            await writer.append(b"the writer was not disturbed")
            assert (await client.describe("orders")).version == 1
            with pytest.raises(LogNotFoundError):
                await client.properties("absent")
            for wrong in (None, ["a"], {"a": 1}, {1: None}, {"": "x"}, {"x": "y" * 40_000}):
                with pytest.raises(ConfigurationError):
                    await client.update_properties("orders", wrong)  # type: ignore[arg-type]
            writer.abort()

    simulate(main, seed=1)


async def test_a_change_whose_answer_was_lost_is_not_called_undone_when_the_store_goes_away() -> None:
    properties, store, _, ref = await properties_on("doubt-then-away")
    await properties.update(ref, {"a": "0"})
    store.faults = [LATE, AWAY]
    with pytest.raises(MetadataOutcomeUnknownError):
        await properties.update(ref, {"a": "1"})
