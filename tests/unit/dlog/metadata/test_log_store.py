"""Names and records in a store that loses answers (docs/log-semantics.md#rule-4, #rule-5, #rule-10)."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from dlog.core import metadata_keys
from dlog.core.metadata_update import Applied, NotOurs
from dlog.errors import LogExistsError, LogNotFoundError, RecordFormatError
from dlog.metadata.log_ref import LogRef
from dlog.metadata.store import LogMetadataStore
from dlog.model import LogMetadata, LogName, MessageId
from ledger.environment import SystemEnvironment
from ledger.errors import LayoutMismatchError, MetadataUnavailableError
from ledger.metadata.drivers import open_store
from ledger.model import Versioned
from tests.helpers.log.unsure_store import APPLIED, AWAY, DROPPED, LATE, UnsureStore

ORDERS = LogName(namespace="default", name="orders")
ENVIRONMENT = SystemEnvironment()


async def logs_on(name: str, *faults: str | None) -> tuple[LogMetadataStore, UnsureStore]:
    inner = await open_store(f"memory:{name}")
    await inner.init_cluster()
    unsure = UnsureStore(inner, *faults)
    return LogMetadataStore(unsure, ENVIRONMENT), unsure


def changed(read: Versioned[LogMetadata], trim: int = 1) -> LogMetadata:
    return replace(read.value, trim_before=MessageId(trim, 0), nonce=ENVIRONMENT.token())


async def test_a_created_log_is_found_by_its_name() -> None:
    logs, _ = await logs_on("created")
    with pytest.raises(LogNotFoundError):
        await logs.find(ORDERS)
    ref = await logs.create(ORDERS)
    assert await logs.find(ORDERS) == ref
    assert await logs.names("default") == ["orders"]
    record = (await logs.read(ref)).value
    assert (record.epoch, record.owner, record.ledgers, record.log_uuid) == (0, None, (), ref.log_uuid)


async def test_a_client_connected_over_a_format_shares_its_logs_with_others() -> None:
    """Both a log that it creates afterwards and one that another client has created."""
    before, store = await logs_on("formatted")
    await before.create(ORDERS)
    await store.format_cluster()
    after = LogMetadataStore(store, ENVIRONMENT)
    ref = await before.create(ORDERS)
    assert (await after.read(ref)).value.instance_id == await store.instance_id()

    await store.format_cluster()
    ref = await LogMetadataStore(store, ENVIRONMENT).create(ORDERS)
    assert (await before.read(ref)).value.instance_id == await store.instance_id()


async def test_a_name_in_use_is_refused_and_leaves_nothing() -> None:
    logs, store = await logs_on("in-use")
    ref = await logs.create(ORDERS)
    with pytest.raises(LogExistsError, match="`dlog info` shows whether it can be written"):
        await logs.create(ORDERS)  # a sealed one, too, cannot be opened by a writer
    assert await store.list_records(metadata_keys.name_key("/dlog", ORDERS)) == [ref.log_uuid]


async def test_of_many_creators_one_creates() -> None:
    logs, store = await logs_on("creators")
    outcomes = await asyncio.gather(*(logs.create(ORDERS) for _ in range(8)), return_exceptions=True)
    refs = [one for one in outcomes if isinstance(one, LogRef)]
    assert len(refs) == 1
    assert all(isinstance(one, LogExistsError) for one in outcomes if not isinstance(one, LogRef))
    assert await logs.find(ORDERS) == refs[0]
    assert await store.list_records(metadata_keys.name_key("/dlog", ORDERS)) == [refs[0].log_uuid]


@pytest.mark.parametrize("fault", [APPLIED, DROPPED])
@pytest.mark.parametrize("position", [0, 1, 2])
async def test_create_survives_any_lost_answer(fault: str, position: int) -> None:
    """Name node, record, name set: each answer may be lost, the change made or not."""
    logs, _ = await logs_on(f"create-{fault}-{position}", *[None] * position, fault)
    ref = await logs.create(ORDERS)
    assert await logs.find(ORDERS) == ref
    assert (await logs.read(ref)).value.epoch == 0


async def test_a_deleted_name_is_used_again_by_a_new_incarnation() -> None:
    """The old path is never used again and the name node stays (docs/log-semantics.md#rule-5)."""
    logs, store = await logs_on("recreated")
    old = await logs.create(ORDERS)
    old_read = await logs.read(old)
    await logs.end_name(old)
    await logs.remove_record(old)
    with pytest.raises(LogNotFoundError):
        await logs.find(ORDERS)
    assert await logs.names("default") == []
    new = await logs.create(ORDERS)
    assert new.log_uuid != old.log_uuid
    assert await logs.compare_and_set(old, changed(old_read), old_read.version) == NotOurs(
        None, definite=True
    )
    await logs.end_name(old)
    assert await logs.find(ORDERS) == new
    assert (await store.read_record(metadata_keys.name_key("/dlog", ORDERS))).version >= 3


async def test_end_name_survives_a_lost_answer() -> None:
    for fault in (APPLIED, DROPPED):
        logs, store = await logs_on(f"end-{fault}")
        ref = await logs.create(ORDERS)
        store.faults = [fault]
        await logs.end_name(ref)
        assert await logs.names("default") == []


@pytest.mark.parametrize("faults", [[], [APPLIED], [DROPPED], [DROPPED, DROPPED], [DROPPED, APPLIED]])
async def test_a_change_is_applied_once_whatever_answers_are_lost(faults: list[str]) -> None:
    logs, store = await logs_on("cas-" + "-".join(faults))
    ref = await logs.create(ORDERS)
    before = await logs.read(ref)
    store.faults = list(faults)
    wanted = changed(before)
    assert await logs.compare_and_set(ref, wanted, before.version) == Applied(wanted, before.version + 1)
    assert await logs.read(ref) == Versioned(wanted, before.version + 1)


async def test_a_stale_change_is_definitely_refused() -> None:
    logs, _ = await logs_on("stale")
    ref = await logs.create(ORDERS)
    before = await logs.read(ref)
    first = changed(before)
    await logs.compare_and_set(ref, first, before.version)
    answer = await logs.compare_and_set(ref, changed(before, 2), before.version)
    assert answer == NotOurs(Versioned(first, before.version + 1), definite=True)


@pytest.mark.parametrize("fault", [APPLIED, DROPPED])
async def test_a_change_in_doubt_with_another_on_top_is_decided_but_not_definite(fault: str) -> None:
    """What follows must not take this for a refusal (docs/log-semantics.md#rule-10)."""
    logs, store = await logs_on(f"doubt-{fault}")
    ref = await logs.create(ORDERS)
    before = await logs.read(ref)
    other = LogMetadataStore(store, ENVIRONMENT)

    async def somebody_else() -> None:
        store.before_fault = None
        now = await other.read(ref)
        await other.compare_and_set(ref, changed(now, 7), now.version)

    store.faults, store.before_fault = [fault], somebody_else
    answer = await logs.compare_and_set(ref, changed(before), before.version)
    assert isinstance(answer, NotOurs)
    assert not answer.definite
    assert answer.found is not None
    assert answer.found.value.trim_before == MessageId(7, 0)


async def test_a_refused_repetition_of_a_change_in_doubt_is_no_refusal() -> None:
    """The first is applied late, so its repetition meets BadVersion; the nonce tells it is ours.

    Source: docs/log-semantics.md#rule-10.
    """
    logs, store = await logs_on("late")
    ref = await logs.create(ORDERS)
    before = await logs.read(ref)
    wanted = changed(before)
    store.faults = [LATE]
    assert await logs.compare_and_set(ref, wanted, before.version) == Applied(wanted, before.version + 1)


@pytest.mark.parametrize("fault", [APPLIED, DROPPED])
async def test_an_undecided_change_of_a_deleted_log_is_not_definitely_refused(fault: str) -> None:
    """Perhaps it was made before the log was deleted (docs/log-semantics.md#rule-10)."""
    logs, store = await logs_on(f"doubt-gone-{fault}")
    ref = await logs.create(ORDERS)
    before = await logs.read(ref)
    other = LogMetadataStore(store, ENVIRONMENT)

    async def somebody_deletes() -> None:
        store.before_fault = None
        await other.remove_record(ref)

    store.faults, store.before_fault = [fault], somebody_deletes
    answer = await logs.compare_and_set(ref, changed(before), before.version)
    assert answer == NotOurs(None, definite=False)


async def test_a_repetition_that_finds_the_log_deleted_is_not_definitely_refused() -> None:
    logs, store = await logs_on("repeated-gone")
    ref = await logs.create(ORDERS)
    before = await logs.read(ref)
    look = store.read_record

    async def look_then_remove(key: str, *, fresh: bool = True) -> object:
        found = await look(key, fresh=fresh)
        await store.remove_record(key, found.version)
        return found

    store.faults = [DROPPED]
    store.read_record = look_then_remove  # type: ignore[method-assign]  # between the look and the repetition
    answer = await logs.compare_and_set(ref, changed(before), before.version)
    assert answer == NotOurs(None, definite=False)


async def test_an_unavailable_store_changes_nothing_and_reports_it() -> None:
    logs, store = await logs_on("away")
    ref = await logs.create(ORDERS)
    before = await logs.read(ref)
    store.faults = [AWAY]
    with pytest.raises(MetadataUnavailableError):
        await logs.compare_and_set(ref, changed(before), before.version)
    assert await logs.read(ref) == before


async def test_a_change_in_doubt_waits_for_the_store_to_come_back() -> None:
    for fault in (APPLIED, DROPPED):
        logs, store = await logs_on(f"back-{fault}")
        ref = await logs.create(ORDERS)
        before = await logs.read(ref)
        wanted = changed(before)
        store.faults, store.reads_away = [fault, AWAY], 3
        assert await logs.compare_and_set(ref, wanted, before.version) == Applied(wanted, before.version + 1)


async def test_a_store_that_answers_reads_and_no_writes_is_not_asked_without_a_pause() -> None:
    logs, store = await logs_on("read-only")
    ref = await logs.create(ORDERS)
    before = await logs.read(ref)
    store.faults = [DROPPED] + [AWAY] * 1_000_000
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await logs.compare_and_set(ref, changed(before), before.version)
    assert len(store.faults) > 1_000_000 - 100


async def test_a_record_of_another_cluster_is_an_error() -> None:
    logs, _ = await logs_on("foreign")
    ref = await logs.create(ORDERS)
    read = await logs.read(ref)
    await logs.compare_and_set(ref, replace(changed(read), instance_id="another"), read.version)
    with pytest.raises(LayoutMismatchError, match="another"):
        await logs.read(ref)


async def test_a_damaged_record_is_a_format_error() -> None:
    logs, store = await logs_on("damaged")
    ref = await logs.create(ORDERS)
    await store.write_record(metadata_keys.record_key("/dlog", ORDERS, ref.log_uuid), b"noise", 0)
    with pytest.raises(RecordFormatError):
        await logs.read(ref)
