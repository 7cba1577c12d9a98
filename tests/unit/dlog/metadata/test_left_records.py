"""What an interrupted deletion of a log leaves in the metadata store (docs/log-semantics.md#crash-windows)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from dlog.cli.upkeep.garbage import Collection
from dlog.client import LogClient
from dlog.core import metadata_keys
from dlog.errors import LogNotFoundError
from dlog.metadata.log_ref import LogRef
from dlog.metadata.store import LogMetadataStore
from dlog.model import LogName, Retention
from ledger.environment import SystemEnvironment
from ledger.errors import MetadataUnavailableError, RecordNotFoundError
from tests.helpers.ledger.scripted_bookies import until
from tests.helpers.log.scripted_log import QUICK, ScriptedLog, scripted_log, store_of
from tests.helpers.log.unsure_store import APPLIED, AWAY, DROPPED, UnsureStore

LOG = "orders"
_REQUESTS = {"read_record", "write_record", "create_record", "remove_record", "list_records"}


class StoreThatLeaves:
    """Answers a number of requests for records, and is then away."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.answers_left: int | None = None

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in _REQUESTS:
            return found

        async def ask(*args: Any, **options: Any) -> Any:
            if self.answers_left == 0:
                raise MetadataUnavailableError("the store is away")
            if self.answers_left is not None:
                self.answers_left -= 1
            return await found(*args, **options)

        return ask

    async def close(self) -> None:
        """The cluster of the test closes it."""


@asynccontextmanager
async def client_on(store: Any) -> AsyncIterator[LogClient]:
    client = LogClient(store, config=QUICK, environment=SystemEnvironment())
    await client.start()
    try:
        yield client
    finally:
        await client.close()


async def filled(client: LogClient) -> LogRef:
    """A log with an entry, two cursors, a retention and a property."""
    async with client.open_writer(LOG, create=True) as writer:
        await writer.append(b"one")
    for cursor in ("billing", "mail"):
        await client.set_cursor(LOG, cursor, "earliest")
    await client.set_retention(LOG, Retention(max_messages=10))
    await client.update_properties(LOG, {"team": "shop"})
    return (await client.describe(LOG)).ref


async def left_of(log: ScriptedLog, ref: LogRef) -> list[str]:
    key = metadata_keys.name_key(ref.root, ref.name)
    found: list[str] = await log.cluster.store.list_records(key)
    return [each for each in found if each == ref.log_uuid]


async def delete_again(client: LogClient) -> None:
    """As an operator does whose deletion has failed, and then collects the garbage."""
    with suppress(LogNotFoundError):
        await client.delete(LOG)
    await client.sweep()


async def exists(client: LogClient) -> bool:
    return LOG in await client.list()


async def test_a_deletion_that_loses_the_store_at_any_step_leaves_nothing_after_a_sweep() -> None:
    """And once the name has ended it has succeeded."""
    answers = 0
    while True:
        async with scripted_log() as log:
            store = StoreThatLeaves(log.cluster.store)
            async with client_on(store) as client:
                ref = await filled(client)
                store.answers_left = answers
                try:
                    deleted = await client.delete(LOG)
                except MetadataUnavailableError:
                    deleted = False
                left, store.answers_left = store.answers_left, None
                assert await exists(client) is not deleted, answers
                await delete_again(client)
                assert await left_of(log, ref) == [], answers
        if left:
            return
        answers += 1


@pytest.mark.parametrize("fault", [APPLIED, DROPPED, AWAY])
async def test_a_deletion_of_which_any_answer_is_lost_leaves_nothing_after_a_sweep(fault: str) -> None:
    changes = 0
    while True:
        async with scripted_log() as log:
            store = UnsureStore(log.cluster.store)
            async with client_on(StoreThatLeaves(store)) as client:
                ref = await filled(client)
                store.faults = [*[None] * changes, fault]
                try:
                    deleted = await client.delete(LOG)
                except MetadataUnavailableError:
                    deleted = False
                unmet, store.faults = bool(store.faults), []
                assert await exists(client) is not deleted, changes
                await delete_again(client)
                assert await left_of(log, ref) == [], changes
        if unmet:
            return
        changes += 1


async def keys_below(log: ScriptedLog, key: str) -> list[str]:
    """Every key below this one, of what is stored."""
    below: list[str] = await log.cluster.store.list_records(key)
    found = []
    for name in below:
        under = f"{key}/{name}"
        found += [under] if await _is_value(log, under) else []
        found += await keys_below(log, under)
    return found


async def _is_value(log: ScriptedLog, key: str) -> bool:
    try:
        await log.cluster.store.read_record(key)
    except RecordNotFoundError:
        return False
    return True


async def test_what_a_removed_record_has_left_is_removed_and_a_new_log_of_the_name_stays() -> None:
    async with scripted_log() as log, log.client() as client:
        ref = await filled(client)
        old = f"{metadata_keys.name_key(ref.root, ref.name)}/{ref.log_uuid}"
        values = {key: (await log.cluster.store.read_record(key)).value for key in await keys_below(log, old)}
        await client.delete(LOG)
        assert await keys_below(log, old) == []
        new = await filled(client)
        for key, value in values.items():
            if not key.endswith("/record"):
                await log.cluster.store.create_record(key, value)
        name = metadata_keys.name_key(new.root, new.name)
        whole = await keys_below(log, f"{name}/{new.log_uuid}")
        left = await keys_below(log, old)
        await Collection(600.0, dry_run=True).run(client)
        assert await keys_below(log, old) == left
        await Collection(600.0, dry_run=False).run(client)
        assert await keys_below(log, old) == []
        assert await keys_below(log, f"{name}/{new.log_uuid}") == whole
        assert {cursor.name for cursor in await client.cursors(LOG)} == {"billing", "mail"}


async def test_the_record_of_a_log_that_is_being_created_is_left_alone() -> None:
    """Also if the name had another log before."""
    async with scripted_log() as log, log.client() as client, log.client() as other:
        await filled(client)
        await client.delete(LOG)
        hold = store_of(client).held["write_record"] = asyncio.Event()
        store_of(client).answered.clear()
        creation = asyncio.create_task(client.create(LOG))
        key = metadata_keys.name_key(client.logs.root, client.name(LOG))
        await until(lambda: "create_record" in store_of(client).answered)
        assert await log.cluster.store.list_records(key) != []
        await other.sweep()
        hold.set()
        await creation
        assert (await other.describe(LOG)).record.epoch == 0
        await other.sweep()
        assert (await other.describe(LOG)).record.epoch == 0


async def test_a_log_whose_record_is_lost_keeps_its_cursors_at_a_sweep() -> None:
    async with scripted_log() as log, log.client() as client:
        ref = await filled(client)
        key = metadata_keys.record_key(ref.root, ref.name, ref.log_uuid)
        record = await log.cluster.store.read_record(key)
        await log.cluster.store.remove_record(key, record.version)
        await client.sweep()
        await log.cluster.store.create_record(key, record.value)
        assert {cursor.name for cursor in await client.cursors(LOG)} == {"billing", "mail"}


async def test_the_root_of_other_logs_below_a_name_is_left_alone() -> None:
    async with scripted_log() as log, log.client() as client:
        ref = await filled(client)
        inner = LogMetadataStore(
            log.cluster.store, SystemEnvironment(), root=metadata_keys.name_key(ref.root, ref.name)
        )
        await inner.create(LogName(namespace="default", name="retention"))
        await client.sweep()
        assert await inner.names("default") == ["retention"]
