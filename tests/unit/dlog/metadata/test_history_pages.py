"""Pages in a store that loses answers: written before a record refers to them, removed when none ever will.

Source: docs/log-semantics.md#rule-1, #crash-windows.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from dlog.core import metadata_keys
from dlog.core.metadata_changes import without_deleted_pages
from dlog.core.metadata_update import Applied, NotOurs
from dlog.errors import HistoryPageError
from dlog.format.history_page import encode_page
from dlog.ledger_list.listing import KEPT_MIN, PAGE_LEDGERS
from dlog.ledger_list.page import LedgerPage
from dlog.metadata.log_ref import LogRef
from dlog.metadata.store import LogMetadataStore
from dlog.model import LogMetadata, LogName
from ledger.environment import SystemEnvironment
from ledger.errors import MetadataUnavailableError
from ledger.metadata.drivers import open_store
from ledger.model import Versioned
from tests.helpers.log.records import listed
from tests.helpers.log.unsure_store import APPLIED, AWAY, DROPPED, LATE, UnsureStore

ORDERS = LogName(namespace="default", name="orders")
ENVIRONMENT = SystemEnvironment()
FULL = KEPT_MIN + PAGE_LEDGERS


async def logs_on(name: str) -> tuple[LogMetadataStore, UnsureStore, LogRef]:
    inner = await open_store(f"memory:pages-{name}")
    await inner.init_cluster()
    store = UnsureStore(inner)
    logs = LogMetadataStore(store, ENVIRONMENT)
    return logs, store, await logs.create(ORDERS)


def longer(read: Versioned[LogMetadata], count: int = FULL) -> LogMetadata:
    """The record with that many more sealed ledgers."""
    first = read.value.last_ledger_id + 1
    new = tuple(listed(first + number, 1) for number in range(count))
    return replace(
        read.value,
        ledgers=(*read.value.ledgers, *new),
        last_ledger_id=first + count - 1,
        nonce=ENVIRONMENT.token(),
    )


async def names(store: UnsureStore, ref: LogRef) -> list[str]:
    found: list[str] = await store.list_records(metadata_keys.pages_key(ref.root, ref.name, ref.log_uuid))
    return found


async def ids(logs: LogMetadataStore, ref: LogRef) -> list[int]:
    record = (await logs.read(ref)).value
    return [one.ledger_id async for one in logs.ledger_list(ref, record).walk()]


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("fault", [APPLIED, DROPPED, LATE])
async def test_a_long_list_moves_into_pages_whatever_answer_is_lost(fault: str, at: int) -> None:
    """The page, the record, and no answer at all."""
    logs, store, ref = await logs_on(f"moves-{fault}-{at}")
    before = await logs.read(ref)
    store.faults = [*[None] * at, fault]
    answer = await logs.compare_and_set(ref, longer(before), before.version)
    assert isinstance(answer, Applied)
    assert answer.record == (await logs.read(ref)).value
    assert (len(answer.record.pages), len(answer.record.ledgers)) == (1, KEPT_MIN)
    assert await ids(logs, ref) == list(range(FULL))
    assert await names(store, ref) == [answer.record.pages[0].name]


async def test_a_record_never_refers_to_a_page_that_is_not_stored() -> None:
    logs, store, ref = await logs_on("order")
    before = await logs.read(ref)
    store.faults = [AWAY]
    with pytest.raises(MetadataUnavailableError):
        await logs.compare_and_set(ref, longer(before), before.version)
    assert await logs.read(ref) == before
    assert await names(store, ref) == []


async def test_the_pages_of_a_refused_change_are_removed() -> None:
    logs, store, ref = await logs_on("refused")
    before = await logs.read(ref)
    await logs.compare_and_set(ref, longer(before, 1), before.version)
    answer = await logs.compare_and_set(ref, longer(before), before.version)
    assert isinstance(answer, NotOurs) and answer.definite
    assert await names(store, ref) == []


@pytest.mark.parametrize("fault", [APPLIED, DROPPED])
async def test_the_pages_of_a_change_that_may_have_been_made_stay(fault: str) -> None:
    """Another change is on top, which still refers to the page if ours was made."""
    logs, store, ref = await logs_on(f"doubt-{fault}")
    before = await logs.read(ref)

    async def another_change() -> None:
        store.before_fault = None
        now = await logs.read(ref)
        await logs.compare_and_set(ref, longer(now, 1), now.version)

    store.faults, store.before_fault = [None, fault], another_change
    answer = await logs.compare_and_set(ref, longer(before), before.version)
    assert isinstance(answer, NotOurs) and not answer.definite
    [kept] = await names(store, ref)
    found = await logs.read(ref)
    assert (kept in [page.name for page in found.value.pages]) == (fault == APPLIED)
    assert await ids(logs, ref) == list(range(FULL + 1 if fault == APPLIED else 1))
    assert await logs.remove_unused_pages(ref, found.value, found.version) == (fault == DROPPED)
    assert await ids(logs, ref) == list(range(FULL + 1 if fault == APPLIED else 1))


async def test_the_pages_of_a_change_that_is_on_its_way_stay() -> None:
    """Another client's: its compare-and-set is sent at the version that the collector has read."""
    logs, store, ref = await logs_on("on-its-way")
    before = await logs.read(ref)
    store.faults = [None, DROPPED]
    pending = asyncio.create_task(logs.compare_and_set(ref, longer(before), before.version))
    while not await names(store, ref):  # noqa: ASYNC110 - the store has no event
        await asyncio.sleep(0)
    assert await logs.remove_unused_pages(ref, before.value, before.version) == 0
    assert isinstance(await pending, Applied)
    assert await ids(logs, ref) == list(range(FULL))


async def test_pages_of_deleted_ledgers_are_removed_and_no_others() -> None:
    logs, store, ref = await logs_on("deleted")
    for _ in range(70):
        read = await logs.read(ref)
        await logs.compare_and_set(ref, longer(read, PAGE_LEDGERS), read.version)
    read = await logs.read(ref)
    assert [page.level for page in read.value.pages] == [1, 0, 0, 0, 0, 0]
    assert len(await names(store, ref)) == 64 + 1 + 5
    for floor, left in ((1, 70), (64, 70), (64 * 64, 5), (64 * 65, 4)):
        read = await logs.read(ref)
        trimmed = replace(read.value, first_id=max(floor, read.value.first_id), nonce=ENVIRONMENT.token())
        await logs.compare_and_set(ref, without_deleted_pages(trimmed, floor, trimmed.nonce), read.version)
        read = await logs.read(ref)
        await logs.remove_unused_pages(ref, read.value, read.version)
        assert len(await names(store, ref)) == left
        assert await ids(logs, ref) == list(range(floor, 70 * 64))


async def test_a_deleted_log_leaves_no_page() -> None:
    logs, store, ref = await logs_on("log-deleted")
    read = await logs.read(ref)
    await logs.compare_and_set(ref, longer(read, 5 * FULL), read.version)
    assert await names(store, ref)
    await logs.end_name(ref)
    await logs.remove_record(ref)
    assert await names(store, ref) == []


async def test_a_lost_or_wrong_page_is_an_error_that_names_it() -> None:
    """Never an absence: its ledgers would look trimmed."""
    logs, store, ref = await logs_on("lost")
    read = await logs.read(ref)
    await logs.compare_and_set(ref, longer(read), read.version)
    [name] = await names(store, ref)
    key = metadata_keys.page_key(ref.root, ref.name, ref.log_uuid, name)
    value = (await store.read_record(key)).value
    others = encode_page(LedgerPage((listed(0, 1), listed(1, 1))))
    for wrong in (None, value[:-1], others):
        version = 0
        if wrong is None:
            await store.remove_record(key, 0)
        elif wrong == value[:-1]:
            await store.create_record(key, wrong)
        else:
            version = await store.write_record(key, wrong, version)
        fresh = LogMetadataStore(store, ENVIRONMENT)
        with pytest.raises(HistoryPageError, match=f"page {name} .* restore {key}") as found:
            await fresh.ledger_list(ref, (await fresh.read(ref)).value).find(3)
        assert (found.value.first, found.value.last) == (0, PAGE_LEDGERS - 1)
        lost = (await fresh.read_window(ref, 3))[1].lost
        assert lost is not None and (lost.first, lost.last) == (0, PAGE_LEDGERS - 1)
        window = await fresh.read_window(ref, PAGE_LEDGERS)
        assert window[1].ledgers[0].ledger_id == PAGE_LEDGERS, "what is not in the page can be read"


async def test_a_page_that_was_removed_after_its_record_was_read_is_no_loss() -> None:
    logs, store, ref = await logs_on("overtaken")
    read = await logs.read(ref)
    await logs.compare_and_set(ref, longer(read), read.version)
    look, overtaken = store.read_record, False

    async def overtake(key: str, *, fresh: bool = True) -> object:
        nonlocal overtaken
        if "/pages/" in key and not overtaken:
            overtaken = True
            now = await logs.read(ref)
            trimmed = replace(now.value, first_id=PAGE_LEDGERS)
            await logs.compare_and_set(
                ref, without_deleted_pages(trimmed, PAGE_LEDGERS, ENVIRONMENT.token()), now.version
            )
            now = await logs.read(ref)
            assert await logs.remove_unused_pages(ref, now.value, now.version) == 1
        return await look(key, fresh=fresh)

    store.read_record = overtake  # type: ignore[method-assign]  # between the record and the page
    record, window = await LogMetadataStore(store, ENVIRONMENT).read_window(ref, 3)
    assert overtaken and record.value.pages == ()
    assert window.ledgers[0].ledger_id == PAGE_LEDGERS


async def test_a_page_that_is_never_confirmed_means_that_the_record_was_not_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So a writer goes on with the ledger that it has (docs/log-semantics.md#rule-17)."""
    monkeypatch.setattr("ledger.metadata.rounds._PAUSE_MAX_S", 0.001)
    logs, store, ref = await logs_on("unconfirmed")
    read = await logs.read(ref)
    store.faults = [DROPPED] * 100
    with pytest.raises(MetadataUnavailableError, match=r"did not confirm page .* so the log was not changed"):
        await logs.compare_and_set(ref, longer(read), read.version)
    store.faults = []
    assert await logs.read(ref) == read
