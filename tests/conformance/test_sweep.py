"""What the sweep of one root may delete, on every metadata driver: nothing but what its own records forbid to list."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from dlog.client import LogClient
from dlog.core import metadata_keys
from dlog.metadata.log_ref import LogRef
from dlog.model import LogName, PageRef, PendingDelete, SinkMark
from ledger.metadata.store import MetadataStore
from ledger.model import EntryId, LedgerId, LedgerMetadata
from ledger.reading.read_handle import ReadHandle
from ledger.refusal import unauthorized
from tests.helpers.log.records import ALICE, listed
from tests.helpers.metadata.drivers import B1, B2, B3, Driver, bookie, new_metadata, on_loop

NEIGHBOUR = "/neighbour"
TAGGED_BEFORE_ROOTS = (
    (metadata_keys.TAG_LOG_UUID, b"8a6f0f2e-1111-4222-8333-944444444444"),
    (metadata_keys.TAG_LOG_NAME, b"default/orders"),
    (metadata_keys.TAG_EPOCH, b"1"),
    (metadata_keys.TAG_OWNER, b"somebody"),
    (metadata_keys.TAG_CREATED_US, b"1700000000000000"),
)
FOREIGN = {
    "without custom metadata": (),
    "of an application": (("application", b"billing"), ("owner", b"team")),
    "of an application that says log": (("dlog.name", b"default/orders"), ("component", b"x")),
    "tagged before tags had a root": TAGGED_BEFORE_ROOTS,
    "of a log under another root": (*TAGGED_BEFORE_ROOTS, ("dlog.root", NEIGHBOUR.encode())),
    "of a log that no name knows": (
        *((key, b"default/unknown" if key == "dlog.name" else value) for key, value in TAGGED_BEFORE_ROOTS),
        ("dlog.root", metadata_keys.DEFAULT_ROOT.encode()),
    ),
    "with a root that is no text": (*TAGGED_BEFORE_ROOTS, ("dlog.root", b"\xff")),
}


@asynccontextmanager
async def client(driver: Driver, root: str = metadata_keys.DEFAULT_ROOT) -> AsyncIterator[LogClient]:
    """A client of the logs under `root`; bookies are registered, and none is there."""
    found = LogClient(await driver.open(), root=root)
    await found.start()
    try:
        yield found
    finally:
        for writer in list(found.writers):
            writer.abort()
        await found.close()


async def cluster(driver: Driver) -> MetadataStore:
    store = await driver.cluster()
    for bookie_id in (B1, B2, B3):
        await (await driver.open()).register_bookie(bookie(bookie_id))
    return store


def closed_at(last_entry: int, custom: tuple[tuple[str, bytes], ...]) -> LedgerMetadata:
    return new_metadata(custom=custom).closed_at(EntryId(last_entry), 10 * (last_entry + 1))


async def made(store: MetadataStore, metadata: LedgerMetadata) -> LedgerId:
    return (await store.create_new_ledger(metadata))[0]


async def kept(store: MetadataStore) -> set[LedgerId]:
    return {one async for one in store.ledger_ids()}


def tags_of(ref: LogRef, epoch: int = 1) -> tuple[tuple[str, bytes], ...]:
    return metadata_keys.ledger_tags(
        root=ref.root, log=ref.name, log_uuid=ref.log_uuid, epoch=epoch, owner=ALICE, created_us=1
    )


@on_loop
async def test_a_sweep_of_one_root_spares_the_logs_of_another(driver: Driver) -> None:
    """Both clusters have a log of the same name in the same namespace."""
    store = await cluster(driver)
    async with client(driver) as own, client(driver, NEIGHBOUR) as neighbour:
        theirs = (await neighbour.open_writer("orders", create=True)).record.ledger_ids
        assert await own.admin.sweep(age_s=-1) == []
        ours = (await own.open_writer("orders", create=True)).record.ledger_ids
        assert await own.admin.sweep(age_s=-1) == []
        assert await neighbour.admin.sweep(age_s=-1) == []
        assert {*ours, *theirs} <= await kept(store)


@pytest.mark.parametrize("kind", FOREIGN)
@on_loop
async def test_ledgers_of_others_are_out_of_reach(driver: Driver, kind: str) -> None:
    """With entries and without; while a log of the name in their tags is there, and after it is deleted."""
    store = await cluster(driver)
    theirs = {
        await made(store, metadata)
        for metadata in (new_metadata(custom=FOREIGN[kind]), closed_at(-1, FOREIGN[kind]))
    }
    theirs.add(await made(store, closed_at(7, FOREIGN[kind])))
    async with client(driver) as own:
        assert await own.admin.sweep(age_s=-1) == []
        await own.create("orders")
        assert await own.admin.sweep(age_s=-1) == []
        await own.delete("orders")
        assert await own.admin.sweep(age_s=-1) == []
        assert theirs <= await kept(store)


@on_loop
async def test_an_orphan_goes_only_if_it_is_empty(driver: Driver) -> None:
    """Nothing is submitted to a ledger before a record lists it, so one with entries is no orphan.

    It was listed by a record that is lost, or by one newer than a backup that was restored.
    """
    store = await cluster(driver)
    async with client(driver) as own:
        await own.create("orders")
        ref = await own.logs.find(own.name("orders"))
        empty = await made(store, closed_at(-1, tags_of(ref)))
        full = await made(store, closed_at(7, tags_of(ref)))
        newer = await made(store, closed_at(-1, tags_of(ref)))
        assert await own.admin.sweep(age_s=-1) == [empty, newer]
        await own.collect("orders")
        assert await kept(store) == {full}
        record = (await own.describe("orders")).record
        assert record.last_ledger_id == newer, "none of them can be listed any more"


@on_loop
async def test_an_orphan_whose_bookies_refuse_its_password_does_not_keep_the_others(driver: Driver) -> None:
    store = await cluster(driver)
    async with client(driver) as own:
        await own.create("orders")
        ref = await own.logs.find(own.name("orders"))
        refused = await made(store, closed_at(-1, tags_of(ref)))
        empty = await made(store, closed_at(-1, tags_of(ref)))
        recover = own.ledgers.open_with_recovery

        async def refuses(ledger_id: LedgerId, password: bytes = b"") -> ReadHandle:
            if ledger_id == refused:
                raise unauthorized(B1, ledger_id)
            return await recover(ledger_id, password)

        own.ledgers.open_with_recovery = refuses  # type: ignore[method-assign,assignment]
        assert await own.admin.sweep(age_s=-1) == [empty]
        assert await kept(store) == {refused}


@on_loop
async def test_a_sinks_ledgers_go_with_their_entries_once_they_can_never_be_listed(driver: Driver) -> None:
    """After their own grace; at once if the batch was published with others. A listed one stays whatever its tags."""
    store = await cluster(driver)
    async with client(driver) as own:
        await own.create("orders")
        ref = await own.logs.find(own.name("orders"))
        published = await made(store, closed_at(3, (*tags_of(ref), *metadata_keys.staging_tags("query", 7))))
        replay = await made(store, closed_at(7, (*tags_of(ref), *metadata_keys.staging_tags("query", 7))))
        next_batch = await made(store, closed_at(7, (*tags_of(ref), *metadata_keys.staging_tags("query", 8))))
        unnumbered = await made(store, closed_at(7, (*tags_of(ref), *metadata_keys.staging_tags(None, 0))))
        read = await own.logs.read(ref)
        held = replace(
            read.value,
            epoch=1,
            owner=ALICE,
            nonce=5,
            last_ledger_id=published,
            ledgers=(listed(published, 3),),
            sinks=(SinkMark(writer_id="query", batch=7, time_us=1),),
        )
        await own.logs.compare_and_set(ref, held, read.version)
        assert await own.admin.sweep(age_s=-1, staging_age_s=10**10) == [replay]
        assert (await own.describe("orders")).record.last_ledger_id == replay, "it was barred first"
        assert await own.admin.sweep(age_s=-1, staging_age_s=0) == [next_batch, unnumbered]
        assert await kept(store) == {published}
        read = await own.logs.read(ref)
        gone = replace(
            read.value,
            ledgers=(),
            nonce=6,
            pending_delete=(PendingDelete(ledger_id=published, not_before_us=0),),
        )
        await own.logs.compare_and_set(ref, gone, read.version)
        await own.collect("orders")
        assert await kept(store) == set()


@on_loop
async def test_a_record_older_than_a_sinks_ledger_proves_nothing(driver: Driver) -> None:
    """It was restored from a backup: the ledger may have been listed."""
    store = await cluster(driver)
    async with client(driver) as own:
        await own.create("orders")
        ref = await own.logs.find(own.name("orders"))
        staged = await made(store, closed_at(7, (*tags_of(ref), *metadata_keys.staging_tags("query", 7))))
        assert (await own.describe("orders")).record.epoch == 0
        assert await own.admin.sweep(age_s=-1, staging_age_s=0) == []
        assert await kept(store) == {staged}
        await own.delete("orders")
        assert await own.admin.sweep(age_s=-1, staging_age_s=10**10) == [staged], "its log was deleted"


@on_loop
async def test_a_deleted_logs_orphan_is_deleted_once_its_name_says_deleted(driver: Driver) -> None:
    """That there is no record proves nothing; that the name stands for nothing, or for another life, does."""
    store = await cluster(driver)
    async with client(driver) as own:
        await own.create("orders")
        first = await own.logs.find(own.name("orders"))
        assert await own.delete("orders")
        orphan = await made(store, closed_at(-1, tags_of(first)))
        assert await own.admin.sweep(age_s=-1) == [orphan]
        await own.create("orders")
        orphan, full = (
            await made(store, closed_at(-1, tags_of(first))),
            await made(store, closed_at(0, tags_of(first))),
        )
        assert await own.admin.sweep(age_s=-1) == [orphan]
        assert await kept(store) == {full}
        second = await own.logs.find(own.name("orders"))
        key = metadata_keys.record_key(second.root, second.name, second.log_uuid)
        await store.remove_record(key, (await store.read_record(key)).version)
        lost = await made(store, closed_at(-1, tags_of(second)))
        assert await own.admin.sweep(age_s=-1) == [], "its name says that the log is there"
        assert await kept(store) == {full, lost}


@on_loop
async def test_a_name_that_was_never_used_proves_nothing(driver: Driver) -> None:
    store = await cluster(driver)
    async with client(driver) as own:
        log = LogName(namespace="default", name="orders")
        ref = LogRef(log, "8a6f0f2e-1111-4222-8333-944444444444")
        await own.logs._free_name(log)
        stray = await made(store, closed_at(-1, tags_of(ref)))
        assert await own.admin.sweep(age_s=-1) == []
        assert await kept(store) == {stray}


@on_loop
async def test_a_ledger_whose_tag_names_another_log_is_not_deleted_as_pending(driver: Driver) -> None:
    """A record restored from elsewhere may name ids that belong to others here."""
    store = await cluster(driver)
    async with client(driver) as own:
        await own.create("orders")
        ref = await own.logs.find(own.name("orders"))
        theirs = await made(store, closed_at(7, ()))
        ours = await made(store, closed_at(7, tags_of(ref)))
        read = await own.logs.read(ref)
        pending = replace(
            read.value,
            nonce=5,
            last_ledger_id=ours,
            pending_delete=tuple(PendingDelete(ledger_id=one, not_before_us=0) for one in (theirs, ours)),
        )
        await own.logs.compare_and_set(ref, pending, read.version)
        record = await own.collect("orders")
        assert record is not None
        assert record.pending_delete == ()
        assert await kept(store) == {theirs}


@on_loop
async def test_only_what_a_lost_page_has_listed_is_deleted_for_it(driver: Driver) -> None:
    """By the tags of the ledgers within its bounds. Those of a sink are the sweep's, which knows what was published."""
    store = await cluster(driver)
    async with client(driver) as own:
        await own.create("orders")
        await own.create("payments")
        ref = await own.logs.find(own.name("orders"))
        theirs = await own.logs.find(own.name("payments"))
        await made(store, closed_at(7, tags_of(ref)))  # below the page: of a list that it is not in
        first = await made(store, closed_at(7, tags_of(ref)))
        staged = await made(store, closed_at(7, (*tags_of(ref), *metadata_keys.staging_tags("query", 7))))
        for tags in (*FOREIGN.values(), tags_of(theirs), tags_of(ref, epoch=2)):
            await made(store, closed_at(7, tags))
        last = await made(store, closed_at(7, tags_of(ref)))
        after = await made(store, closed_at(7, tags_of(ref)))
        read = await own.logs.read(ref)
        page = PageRef(
            name=f"0-{first}-1-1",
            level=0,
            first_id=first,
            last_id=last,
            ledgers=3,
            message_count=24,
            uncounted=0,
            byte_count=240,
            last_append_us=1,
        )
        changed = replace(
            read.value,
            epoch=1,
            owner=ALICE,
            nonce=5,
            last_ledger_id=after,
            pages=(page,),
            first_id=after,
            ledgers=(listed(after, 7),),
        )
        await own.logs.compare_and_set(ref, changed, read.version)
        before = await kept(store)
        record = await own.collect("orders")
        if record is not None and record.pending_delete:  # a bookie may forget what is deleted
            assert {one.ledger_id for one in record.pending_delete} == {first, last}
            due = tuple(replace(one, not_before_us=0) for one in record.pending_delete)
            read = await own.logs.read(ref)
            await own.logs.compare_and_set(ref, replace(record, pending_delete=due, nonce=6), read.version)
            record = await own.collect("orders")
        assert record is not None and (record.pages, record.pending_delete) == ((), ())
        assert await kept(store) == before - {first, last}
        assert await own.admin.sweep(age_s=-1, staging_age_s=0) == [staged]
