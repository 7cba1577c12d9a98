"""What an owner reads of its record: its own changes cost no linearizable read, those of others do."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from dlog.client import LogClient
from dlog.core.metadata_update import Applied
from dlog.core.rotation import Phase
from dlog.metadata.grace import EpochGuard
from dlog.metadata.log_ref import LogRef
from dlog.metadata.store import LogMetadataStore
from dlog.model import LogMetadata, LogName
from dlog.write.record_watch import RecordWatch
from dlog.write.task_scope import TaskScope
from dlog.write.writer import LogWriter
from ledger.environment import SystemEnvironment
from ledger.metadata.drivers import open_store
from ledger.model import Versioned
from tests.helpers.ledger.scripted_bookies import GUARD_S, until
from tests.helpers.log.scripted_log import scripted_log, store_of
from tests.helpers.log.scripted_writer import settled_writer

RECORD = "/record"
ENVIRONMENT = SystemEnvironment()


async def rotated(writer: LogWriter) -> None:
    await writer.append(b"one")
    async with asyncio.timeout(GUARD_S):
        await writer.rotate()


def fresh_reads(client: LogClient) -> list[bool]:
    """Of the record, from now on: whether each is linearizable."""
    store, seen = store_of(client), list[bool]()
    look = store._inner.read_record

    async def read_record(key: str, *, fresh: bool = True) -> object:
        if key.endswith(RECORD):
            seen.append(fresh)
        return await look(key, fresh=fresh)

    store._inner = _With(store._inner, read_record)
    return seen


class _With:
    def __init__(self, inner: object, read_record: object) -> None:
        self._inner = inner
        self.read_record = read_record

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


async def test_a_rotation_of_its_own_costs_no_linearizable_read() -> None:
    async with scripted_log() as log, log.client() as client:
        writer = await settled_writer(client, "orders")
        seen = fresh_reads(client)
        await rotated(writer)
        await rotated(writer)
        await until(lambda: len(seen) >= 2)
        await asyncio.sleep(0.05)
        assert seen and not any(seen)


async def test_a_takeover_is_noticed_after_rotations() -> None:
    async with scripted_log() as log, log.client() as client, log.client() as other:
        writer = await settled_writer(client, "orders")
        await rotated(writer)
        await other.open_writer("orders", create=True)
        await until(lambda: writer._rotation.phase is Phase.OVER)


async def test_a_change_of_others_is_reported_though_the_owner_has_changed_the_record_since(
    request: pytest.FixtureRequest,
) -> None:
    """As a request to the owner that it covers with a rotation before it has read the record again."""
    store = await open_store(f"memory:{request.node.nodeid}")
    await store.init_cluster()
    logs = LogMetadataStore(store, ENVIRONMENT)
    ref = await logs.create(LogName(namespace="default", name="orders"))
    reported, faults, may_glance = list[int](), list[BaseException](), asyncio.Event()
    may_glance.set()
    look = logs.read

    async def read(ref: LogRef, *, fresh: bool = True) -> Versioned[LogMetadata]:
        if not fresh:
            await may_glance.wait()
        return await look(ref, fresh=fresh)

    logs.read = read  # type: ignore[method-assign]
    record = (await look(ref)).value

    async def change(version: int) -> None:
        changed = await logs.compare_and_set(ref, replace(record, nonce=ENVIRONMENT.token()), version)
        assert isinstance(changed, Applied)
        watch.own_change(version, changed.version)

    watch = RecordWatch(
        logs,
        ref,
        EpochGuard(ENVIRONMENT, lambda: 0.0, 0.0),
        TaskScope(faults.append),
        ours=lambda: record,
        pause_s=lambda attempt: 0.0,
        on_seen=lambda read: reported.append(-1 if read is None else read.version),
        on_confirmed=lambda: None,
    )
    watch.read_again()
    await until(lambda: reported == [0])
    await change(0)
    await asyncio.sleep(0.02)
    assert reported == [0]
    may_glance.clear()
    await logs.touch(ref)
    await change(2)
    may_glance.set()
    await until(lambda: reported == [0, 3])
    assert not faults
    watch.stop()
    await store.close()


async def test_a_store_that_is_away_for_a_moment_hides_no_takeover() -> None:
    async with scripted_log() as log, log.client() as client, log.client() as other:
        writer = await settled_writer(client, "orders")
        store_of(client).away_for = {"read_record"}
        await other.open_writer("orders", create=True)
        await until(lambda: store_of(client).asked.count("read_record") >= 5)
        assert writer._rotation.phase is not Phase.OVER
        store_of(client).away_for = set()
        await until(lambda: writer._rotation.phase is Phase.OVER)
