"""Cursors in a store that loses answers (docs/log-semantics.md#rule-35)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from dlog.core import metadata_keys
from dlog.errors import CursorMovedError, CursorNotFoundError, RecordFormatError
from dlog.metadata.cursor_store import CursorStore
from dlog.metadata.log_ref import LogRef
from dlog.metadata.store import LogMetadataStore
from dlog.model import Cursor, LogName, MessageId, StoredCursor
from dlog.read.held_cursor import HeldCursor
from ledger.environment import SystemEnvironment
from ledger.errors import MetadataOutcomeUnknownError, MetadataUnavailableError
from ledger.metadata.drivers import open_store
from ledger.model import Versioned
from tests.helpers.log.unsure_store import APPLIED, AWAY, DROPPED, LATE, UnsureStore

ENVIRONMENT = SystemEnvironment()
NAME = "billing"
START = MessageId(3, 0, 0)


async def begin() -> MessageId:
    return START


class Shop:
    """One log, its cursors, and a store with faults in front of it."""

    def __init__(self, store: UnsureStore, logs: LogMetadataStore, ref: LogRef) -> None:
        self.store, self.logs, self.ref = store, logs, ref
        self.cursors: CursorStore = logs.cursors

    async def take(self) -> Versioned[StoredCursor]:
        return await self.cursors.take(self.ref, NAME, begin)

    async def hold(self) -> HeldCursor:
        return HeldCursor(self.cursors, self.ref, await self.take(), ENVIRONMENT)

    async def position(self) -> MessageId:
        return (await self.cursors.read(self.ref, NAME)).position

    @property
    def key(self) -> str:
        return metadata_keys.cursor_key(self.ref.root, self.ref.name, self.ref.log_uuid, NAME)


async def shop_on(name: str) -> Shop:
    inner = await open_store(f"memory:cursors-{name}")
    await inner.init_cluster()
    store = UnsureStore(inner)
    logs = LogMetadataStore(store, ENVIRONMENT)
    return Shop(store, logs, await logs.create(LogName(namespace="default", name="orders")))


def at(entry: int) -> MessageId:
    return MessageId(3, entry, 0)


async def test_a_cursor_begins_where_it_is_taken_first_and_continues_where_it_was_moved() -> None:
    shop = await shop_on("first")
    with pytest.raises(CursorNotFoundError, match="a reader that is opened with a new name creates it"):
        await shop.position()
    held = await shop.hold()
    assert held.value.position == START
    assert held.value.properties == ()
    await held.ack(at(5), {"b": "2", "a": "1"})
    await held.ack(at(4), None)
    assert held.value.position == at(5)
    again = await shop.hold()
    assert (again.value.position, again.value.properties) == (at(5), (("a", "1"), ("b", "2")))
    await again.ack(at(5), {})
    assert (await shop.cursors.read(shop.ref, NAME)).properties == ()


async def test_only_the_newest_holder_moves_it() -> None:
    shop = await shop_on("holders")
    old = await shop.hold()
    await old.ack(at(1), None)
    new = await shop.hold()
    with pytest.raises(
        CursorMovedError, match="taken over by another reader, or set: it is at 3:1:0 now"
    ) as moved:
        await old.ack(at(9), None)
    assert (moved.value.cursor, moved.value.position) == (NAME, at(1))
    await new.ack(at(2), None)
    with pytest.raises(CursorMovedError):
        await old.ack(at(9), None)
    assert await shop.position() == at(2)


async def test_one_that_was_removed_and_created_again_is_another_one() -> None:
    """Its version does not begin again, so an old holder never matches it (docs/log-semantics.md#rule-5)."""
    shop = await shop_on("removed")
    old = await shop.hold()
    for entry in range(1, 4):
        await old.ack(at(entry), None)
    await shop.cursors.remove(shop.ref, NAME)
    assert await shop.cursors.all(shop.ref) == []
    with pytest.raises(CursorNotFoundError):
        await old.ack(at(9), None)
    with pytest.raises(CursorNotFoundError):
        await shop.cursors.remove(shop.ref, NAME)
    new = await shop.hold()
    for entry in range(1, 12):
        await new.ack(at(entry), None)
        with pytest.raises(CursorMovedError):
            await old.ack(at(100), None)
    assert await shop.cursors.all(shop.ref) == [new.value]


FAULTS = (APPLIED, DROPPED, LATE)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("exists", [False, True])
async def test_taking_it_survives_a_lost_answer(fault: str, exists: bool) -> None:
    shop = await shop_on(f"take-{fault}-{exists}")
    if exists:
        await (await shop.hold()).ack(at(7), None)
    shop.store.faults = [fault]
    held = await shop.hold()
    assert held.value.position == (at(7) if exists else START)
    await held.ack(at(8), None)
    assert await shop.position() == at(8)


@pytest.mark.parametrize("first", FAULTS)
@pytest.mark.parametrize("second", [None, *FAULTS])
async def test_moving_it_survives_lost_answers(first: str, second: str | None) -> None:
    shop = await shop_on(f"move-{first}-{second}")
    held = await shop.hold()
    shop.store.faults = [first, second]
    await held.ack(at(1), None)
    assert await shop.position() == at(1)
    await held.ack(at(2), None)
    assert await shop.position() == at(2)


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_lost_answer_is_not_taken_for_a_success_of_a_replaced_holder(fault: str) -> None:
    """Another reader takes it over between the request and the look at its outcome."""
    shop = await shop_on(f"overtaken-{fault}")
    held = await shop.hold()
    newer: list[HeldCursor] = []

    async def overtake() -> None:
        shop.store.before_fault = None
        newer.append(await shop.hold())

    shop.store.faults, shop.store.before_fault = [fault], overtake
    with pytest.raises(CursorMovedError):
        await held.ack(at(6), None)
    await newer[0].ack(at(7), None)
    assert await shop.position() == at(7)


@pytest.mark.parametrize("fault", FAULTS)
async def test_removing_it_survives_a_lost_answer(fault: str) -> None:
    shop = await shop_on(f"remove-{fault}")
    await shop.take()
    shop.store.faults = [fault]
    await shop.cursors.remove(shop.ref, NAME)
    with pytest.raises(CursorNotFoundError):
        await shop.position()


Call = Callable[[Shop, HeldCursor], Awaitable[object]]
CALLS: dict[str, Call] = {
    "take": lambda shop, _: shop.take(),
    "ack": lambda _, held: held.ack(at(1), None),
    "remove": lambda shop, _: shop.cursors.remove(shop.ref, NAME),
}


@pytest.mark.parametrize("name", CALLS)
async def test_unavailable_means_that_nothing_was_changed(name: str) -> None:
    shop = await shop_on(f"away-{name}")
    held = await shop.hold()
    shop.store.faults = [AWAY]
    with pytest.raises(MetadataUnavailableError):
        await CALLS[name](shop, held)
    assert await shop.position() == START


@pytest.mark.parametrize("name", CALLS)
async def test_an_outcome_that_cannot_be_looked_up_is_unknown(name: str) -> None:
    shop = await shop_on(f"unknown-{name}")
    held = await shop.hold()

    async def go_away() -> None:
        shop.store.reads_away = 1

    shop.store.faults, shop.store.before_fault = [APPLIED], go_away
    with pytest.raises(MetadataOutcomeUnknownError):
        await CALLS[name](shop, held)


async def test_a_cancelled_ack_leaves_a_cursor_that_can_be_moved_on() -> None:
    """Whether the change was made or not: the holder knows only an old version."""
    for fault in FAULTS:
        shop = await shop_on(f"cancelled-{fault}")
        held = await shop.hold()

        async def never() -> None:
            await asyncio.Event().wait()

        shop.store.faults, shop.store.before_fault = [fault], never
        ack = asyncio.ensure_future(held.ack(at(1), None))
        await asyncio.sleep(0.01)
        ack.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ack
        shop.store.before_fault = None
        await held.ack(at(2), None)
        assert await shop.position() == at(2)


async def test_acks_that_wait_for_one_another_are_made_by_one_change() -> None:
    shop = await shop_on("many")
    held = await shop.hold()
    await asyncio.gather(*(held.ack(at(entry), None) for entry in range(1, 200)))
    assert await shop.position() == at(199)
    version = (await shop.store.read_record(shop.key)).version
    assert version <= 3


async def test_a_damaged_one_is_reported_and_can_be_removed() -> None:
    shop = await shop_on("damaged")
    await shop.take()
    await shop.store.write_record(shop.key, b"damaged", 0)
    for call in (shop.take(), shop.position(), shop.cursors.all(shop.ref)):
        with pytest.raises(RecordFormatError, match="cursor rm") as damaged:
            await call
        assert damaged.value.key == shop.key
    await shop.cursors.remove(shop.ref, NAME)
    assert (await shop.hold()).value.position == START


@pytest.mark.parametrize("fault", [None, APPLIED, DROPPED])
async def test_nothing_of_them_outlives_the_log(fault: str | None) -> None:
    shop = await shop_on(f"forgotten-{fault}")
    await shop.take()
    await shop.cursors.take(shop.ref, "other", begin)
    await shop.cursors.remove(shop.ref, "other")
    shop.store.faults = [None, fault]
    await shop.logs.remove_record(shop.ref)
    log_key = f"{metadata_keys.name_key(shop.ref.root, shop.ref.name)}/{shop.ref.log_uuid}"
    assert await shop.store.list_records(f"{log_key}/cursors") == []


async def test_a_change_is_made_to_the_newest_value() -> None:
    """`take` with a change is how an operator sets a cursor."""
    shop = await shop_on("set")
    await (await shop.hold()).ack(at(4), {"kept": "yes"})

    def back(cursor: Cursor) -> Cursor:
        return replace(cursor, position=START)

    found = (await shop.cursors.take(shop.ref, NAME, begin, back)).value.cursor
    assert found is not None
    assert (found.position, found.properties) == (START, (("kept", "yes"),))
    assert await shop.cursors.read(shop.ref, NAME) == found


async def test_properties_are_never_stored_with_the_position_of_another_acknowledgement() -> None:
    """They are what a consumer resumes with, after the position."""
    shop = await shop_on("together")
    held = await shop.hold()
    stored: list[tuple[int, dict[str, str]]] = []
    write_record = shop.store.write_record

    async def write(key: str, value: bytes, version: int) -> int:
        written = await write_record(key, value, version)
        cursor = await shop.cursors.read(shop.ref, NAME)
        stored.append((cursor.position.entry_id, dict(cursor.properties)))
        return written

    shop.store.write_record = write  # type: ignore[method-assign]
    acks = [held.ack(at(number), {"through": str(number)}) for number in (1, 2, 3)]
    await asyncio.gather(*acks, held.ack(at(4), None))
    assert stored == [(1, {"through": "1"}), (4, {"through": "3"})]


async def test_an_acknowledgement_whose_answer_was_lost_is_not_called_undone_when_the_store_goes_away() -> (
    None
):
    shop = await shop_on("doubt-then-away")
    held = await shop.hold()
    shop.store.faults = [LATE, AWAY]
    with pytest.raises(MetadataOutcomeUnknownError):
        await held.ack(at(5), None)
    assert await shop.position() in (START, at(5))
