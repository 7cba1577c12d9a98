"""One list of scenes for both APIs: the same ids, errors, positions, waits and warnings from asyncio and from blocking
calls.

The simulator runs only the asyncio API; what the blocking one does with it is held against it here. Each scene is
written once, for objects whose calls are awaited, and returns what a user saw as text.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any

import pytest

from dlog.blocking.pending import Pending
from dlog.core.batching import BatchLimits
from dlog.errors import AppendsFailedError
from dlog.model import MessageId
from ledger.config import LedgerClientConfig
from tests.helpers.log.blocking_log import BlockingLog, blocking_log
from tests.helpers.log.scripted_log import ScriptedLog, scripted_log, store_of
from tests.helpers.log.scripted_writer import is_settled

KIB = 1024
PATIENT = LedgerClientConfig(add_timeout_s=30.0, quorum_timeout_s=30.0)
SMALL = BatchLimits(entry_bytes_max=16 * KIB, batch_bytes=4 * KIB)


class Asked:
    """An object of either API; its calls are awaited."""

    def __init__(self, face: Face, target: Any) -> None:
        self.face, self.target = face, target

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.target, name)
        return self.face.wrap(found) if callable(found) else found


class Face:
    """The asyncio API."""

    def __init__(self, log: ScriptedLog) -> None:
        self.log = log
        self._entered: list[Any] = []

    async def client(self, **settings: Any) -> Asked:
        manager = self.log.client(**settings)
        self._entered.append(manager)
        return Asked(self, await manager.__aenter__())

    async def leave(self) -> None:
        for manager in reversed(self._entered):
            await manager.__aexit__(None, None, None)

    def wrap(self, method: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **options: Any) -> Any:
            found = method(*args, **options)
            return self._asked(await found if inspect.isawaitable(found) else found)

        return call

    def _asked(self, found: Any) -> Any:
        ours = type(found).__module__.startswith("dlog.") and type(found).__name__ in _OBJECTS
        return Asked(self, found) if ours else found

    async def outcome(self, submitted: Any) -> Any:
        return await asyncio.wait_for(submitted, 10)

    async def take(self, reader: Asked, count: int) -> list[Any]:
        found = []
        async for message in reader.target:
            found.append(message)
            if len(found) == count:
                break
        return found

    async def rows(self, reader: Asked, columns: list[str] | None, batch_rows: int) -> list[Any]:
        """The first record batch, as a dictionary."""
        async for batch in reader.target.arrow_batches(columns, batch_rows=batch_rows):
            return [batch.to_pydict()]
        return []

    async def leave_block(self, one: Asked, error: BaseException | None) -> None:
        await one.target.__aexit__(type(error) if error else None, error, None)

    def silence(self) -> None:
        for bookie in self.log.bookies:
            bookie.be_silent()

    def speak(self) -> None:
        for bookie in self.log.bookies:
            bookie.speak()


class BlockingFace(Face):
    """The blocking API, each call in a thread."""

    def __init__(self, log: BlockingLog) -> None:
        self.blocking = log

    async def client(self, **settings: Any) -> Asked:
        return Asked(self, await asyncio.to_thread(self.blocking.client, **settings))

    async def leave(self) -> None:
        """The block of the log does it."""

    def wrap(self, method: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **options: Any) -> Any:
            return self._asked(await asyncio.to_thread(method, *args, **options))

        return call

    async def outcome(self, submitted: Pending[Any]) -> Any:
        return await asyncio.to_thread(submitted.result, 10)

    async def take(self, reader: Asked, count: int) -> list[Any]:
        return await asyncio.to_thread(lambda: list(islice(reader.target, count)))

    async def rows(self, reader: Asked, columns: list[str] | None, batch_rows: int) -> list[Any]:
        def first() -> list[Any]:
            batches = reader.target.arrow_batches(columns, batch_rows=batch_rows)
            return [batch.to_pydict() for batch in islice(batches, 1)]

        return await asyncio.to_thread(first)

    async def leave_block(self, one: Asked, error: BaseException | None) -> None:
        await asyncio.to_thread(one.target.__exit__, type(error) if error else None, error, None)

    def silence(self) -> None:
        self.blocking.be_silent()

    def speak(self) -> None:
        self.blocking.speak()


_OBJECTS = ("Writer", "LogWriter", "Reader", "Producer", "LogProducer", "MetadataCache")


@asynccontextmanager
async def face_of(name: str) -> AsyncIterator[Face]:
    if name == "asyncio":
        async with scripted_log() as log:
            face = Face(log)
            try:
                yield face
            finally:
                face.speak()
                await face.leave()
        return
    manager = blocking_log()
    log_of_threads = await asyncio.to_thread(manager.__enter__)
    try:
        yield BlockingFace(log_of_threads)
    finally:
        await asyncio.to_thread(manager.__exit__, None, None, None)


async def said(call: Awaitable[Any]) -> str:
    """What a call came to, as text."""
    try:
        found = await call
    except Exception as error:  # noqa: BLE001 - which one it is, is what is compared
        return type(error).__name__
    if isinstance(found, list | tuple) and not isinstance(found, MessageId):
        return " ".join(map(str, found))
    return str(found) if found is None or isinstance(found, MessageId | bool | str) else _ids(found)


def _ids(found: Any) -> str:
    return " ".join(map(str, found)) if hasattr(found, "__iter__") else type(found).__name__


async def until(true: Callable[[], Awaitable[bool]], seconds: float = 10) -> bool:
    async with asyncio.timeout(seconds):
        while not await true():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)
    return True


# ---- scenes


async def order_of_appends(face: Face) -> list[str]:
    client = await face.client()
    writer = await client.open_writer("orders", create=True)
    submitted = [await writer.submit(b"a"), await writer.submit(b"b", key=b"k", headers=[(b"h", b"v")])]
    submitted.append(await writer.submit_many([b"c", b"d"]))
    await writer.flush()
    done = str([one.done() for one in submitted])
    ids = [await face.outcome(submitted[0]), await face.outcome(submitted[1])]
    ids += await face.outcome(submitted[2])
    ids.append(await writer.append(b"e"))
    ids += await writer.append_many([b"f", None])
    seen = [done, await said(writer.flush()), await said(writer.close()), await said(writer.close())]
    reader = await client.reader("orders", until="latest")
    messages = await face.take(reader, 100)
    await reader.close()
    assert [message.id for message in messages] == ids
    return [*seen, str([(message.payload, message.key, message.headers) for message in messages])]


async def a_producer(face: Face) -> list[str]:
    client = await face.client()
    writer = await client.open_writer("orders", create=True)
    producer = await writer.producer("billing")
    seen = [f"{producer.name} {producer.last_sequence}"]
    seen.append(str(await producer.append(b"a", b"key", sequence=3)))
    seen.append(str(await face.outcome(await producer.submit(b"a", sequence=3))))
    seen.append(str(await producer.append_many([b"a", b"b"], first_sequence=3)))
    many = await producer.submit_many([b"c", b"d"], first_sequence=8, keys=[None, b"k"])
    seen.append(str(await face.outcome(many)))
    seen.append(str(producer.last_sequence))
    seen += [await said(producer.append(b"e", sequence=-1)), await said(writer.producer("not valid"))]
    seen += [await said(writer.forget_producer("billing")), await said(writer.forget_producer("billing"))]
    await writer.close()
    return [*seen, await said(producer.append(b"f", sequence=99))]


async def wrong_arguments(face: Face) -> list[str]:
    writer = await (await face.client(batching=SMALL)).open_writer("orders", create=True)
    big = b"x" * 17 * KIB
    return [
        await said(writer.append("text")),
        await said(writer.submit(b"p", key=7)),
        await said(writer.submit(b"p", headers=[(b"h",)])),
        await said(writer.submit(big)),
        await said(writer.append(b"", key=big)),
        await said(writer.submit_many([b"x" * KIB] * 17)),
        await said(writer.append_many([])),
        await said(writer.append_many([b"a"], keys=[b"k", b"l"])),
        await said(writer.append(b"fine")),
        await said(writer.close()),
    ]


async def a_closed_writer(face: Face) -> list[str]:
    writer = await (await face.client()).open_writer("orders", create=True)
    await writer.close()
    return [
        str(writer.active),
        await said(writer.append(b"a")),
        await said(writer.append_many([b"a"])),
        await said(writer.submit(b"a")),
        await said(writer.flush()),
        await said(writer.rotate()),
    ]


async def a_deposed_writer(face: Face) -> list[str]:
    """It learns of the takeover from the bookies, by an append whose outcome no caller reads.

    By one call: before a second one it may know already, and refuse that.
    """
    client, other = await face.client(blind=True), await face.client()
    writer = await client.open_writer("orders", create=True)
    await writer.append(b"a")
    # A moment after it was opened a writer reads the record, which must not show the takeover.
    assert await until(lambda: _is(is_settled(getattr(client.target, "_target", client.target))))
    successor = await other.open_writer("orders", create=True)
    unread = await writer.submit_many([b"b", b"c"])
    assert await until(lambda: _is(unread.done() and not writer.active))
    seen = [
        await said(writer.append(b"e")),
        await said(writer.submit(b"f")),
        str(writer.active),
        await said(face.leave_block(writer, None)),
        await said(writer.flush()),
        await said(writer.close()),
    ]
    await successor.append(b"g")
    await successor.close()
    reader = await other.reader("orders", until="latest")
    payloads = [message.payload for message in await face.take(reader, 100)]
    await reader.close()
    return [*seen, str(payloads)]


async def _is(value: bool) -> bool:
    return value


async def unread_failures(face: Face) -> list[str]:
    """Three ways to meet them; each is told once, and none that was read."""
    seen = []
    for ending in ("with", "with error", "flush", "read"):
        client = await face.client(ledger=PATIENT)
        writer = await client.open_writer(ending.replace(" ", "-"), create=True)
        face.silence()
        submitted = [await writer.submit_many([b"%d" % number]) for number in range(3)]
        await writer.abort()
        face.speak()
        assert await until(lambda: _is(all(one.done() for one in submitted)))  # noqa: B023
        if ending == "read":
            seen += [await said(face.outcome(one)) for one in submitted]
        error = RuntimeError("the block's own") if ending == "with error" else None
        if ending == "flush":
            seen.append(await said(writer.flush()))
        try:
            await face.leave_block(writer, error)
            seen.append(f"{ending}: left")
        except AppendsFailedError as failed:
            seen.append(f"{ending}: {failed.count} {type(failed.first).__name__} {failed.log}")
        if error is not None:
            seen.append(str(len(error.__notes__)))
    return seen


async def backpressure(face: Face) -> list[str]:
    client = await face.client(ledger=PATIENT, batching=SMALL, buffer_bytes_max=16 * KIB)
    writer = await client.open_writer("orders", create=True)
    face.silence()
    accepted: list[Any] = []

    async def submit_all() -> None:
        for number in range(64):
            accepted.append(await writer.submit(b"%04d" % number * 256))

    submitting = asyncio.ensure_future(submit_all())
    await asyncio.sleep(0.5)
    waits = not submitting.done() and 10 <= len(accepted) <= 40
    seen = [str(waits), await said(writer.flush(timeout_s=0.05))]
    face.speak()
    await submitting
    await writer.flush(timeout_s=20)
    ids = [await face.outcome(one) for one in accepted]
    await writer.close()
    return [*seen, str(ids == sorted(ids)), str(len(set(ids)))]


async def where_a_reader_is(face: Face) -> list[str]:
    client = await face.client()
    writer = await client.open_writer("orders", create=True)
    await writer.append_many([b"a", b"b", b"c"])
    await writer.append_many([b"d"])
    reader = await client.tail("orders", start="earliest")
    seen = []
    for count in (1, 1, 1, 1):
        (message,) = await face.take(reader, count)
        seen.append(f"{message.payload} {reader.position}")
        if reader.position.batch_index:
            seen.append(await said(_fact(reader, "at_tail")))
    assert await until(lambda: _fact(reader, "at_tail"))
    seen.append(str(await _fact(reader, "lag")))
    await writer.append(b"e")
    (message,) = await face.take(reader, 1)
    assert await until(lambda: _fact(reader, "at_tail"))
    seen.append(f"{message.id} {reader.position}")
    await reader.close()
    seen += [str(reader.position), await said(face.take(reader, 1))]
    ended = await client.reader("orders", until="latest")
    await writer.append(b"after it opened or not")
    payloads = [message.payload for message in await face.take(ended, 5)]
    await ended.close()
    return [*seen, str(payloads)]


async def polling(face: Face) -> list[str]:
    client = await face.client()
    writer = await client.open_writer("orders", create=True)
    reader = await client.reader("orders")
    seen = [str(await reader.poll(timeout_s=0.2)), str(await _fact(reader, "ended"))]
    await writer.append_many([b"a", b"b", b"c"])
    seen.append(str((await reader.poll(timeout_s=10)).payload))
    seen.append(f"{(await reader.poll(0)).payload} {reader.position}")
    seen += [str(message.payload) for message in await face.take(reader, 1)]
    seen.append(str(await reader.poll(0.05)))
    await writer.append(b"d")
    seen.append(str((await reader.poll()).payload))
    await reader.close()
    seen.append(await said(reader.poll(0.1)))
    ending = await client.reader("orders", "1:0:2", until="latest")
    seen += [str((await ending.poll(10)).payload) for _ in range(2)]
    seen += [str(await ending.poll(10)), str(await _fact(ending, "ended")), str(await ending.poll())]
    await ending.close()
    missing = await client.reader("missing")
    seen.append(await said(missing.poll(10)))
    await missing.close()
    gaps = await client.reader("orders", on_trimmed="gap")
    seen += [await said(gaps.poll(10)), await said(gaps.close())]
    return seen


async def _fact(reader: Asked, name: str) -> Any:
    if isinstance(reader.face, BlockingFace):
        return await asyncio.to_thread(getattr, reader.target, name)
    return getattr(reader.target, name)


async def arrow_data(face: Face) -> list[str]:
    client = await face.client()
    writer = await client.open_writer("orders", create=True)
    for number in range(3):
        await writer.append_many([b"%da" % number, b"%db" % number, None], keys=[b"k", None, b""])
    reader = await client.reader("orders", until="latest")
    (message,) = await face.take(reader, 1)
    seen = [f"{message.payload} {reader.position}"]
    seen += [str(each) for each in await face.rows(reader, ["value"], 2)]
    seen += [str((await face.take(reader, 1))[0].id), str(reader.position)]
    table = await reader.to_arrow(["batch_index", "key"])
    seen += [str(table.to_pydict()), str(reader.position), str(await _fact(reader, "ended"))]
    seen.append(await said(reader.to_arrow(["offset"])))
    await reader.close()
    seen.append(await said(reader.to_arrow()))
    following = await client.reader("orders", "1:2:0")
    seen.append(await said(following.to_arrow()))
    seen += [str(each) for each in await face.rows(following, ["value"], 8192)]
    await following.close()
    gaps = await client.reader("orders", until="latest", on_trimmed="gap")
    seen += [await said(gaps.to_arrow()), await said(face.rows(gaps, None, 1)), await said(gaps.close())]
    return seen


async def errors_of_readers_and_clients(face: Face) -> list[str]:
    client = await face.client()
    writer = await client.open_writer("orders", create=True)
    for number in range(3):
        await writer.append(b"%d" % number)
        await writer.rotate()
    last = await writer.append(b"last")
    await client.shrink("orders", last)
    beyond = MessageId(last.ledger_id + 50, 0, 0)
    seen = [
        await said(_read(face, client, "missing")),
        await said(_read(face, client, "orders", start=MessageId(0, 0, 0))),
        await said(_read(face, client, "orders", start=beyond)),
        await said(_read(face, client, "orders", last=1)),
        await said(_read(face, client, "orders", start="latest")),
        await said(client.reader("orders", start="earliest", last=3)),
        await said(client.reader("orders", on_data_loss="skip")),
        await said(client.create("orders")),
        await said(client.create("no/such name")),
        await said(client.describe("missing")),
        await said(client.shrink("orders", beyond)),
        await said(client.open_writer("missing")),
        await said(client.list()),
    ]
    await writer.close()
    await client.seal("orders")
    return [*seen, await said(client.open_writer("orders", create=True))]


async def standbys_of_logs_that_end(face: Face) -> list[str]:
    """The standby gets what opening the log after that gets."""
    seen = []
    for end in ("seal", "delete"):
        log = f"{end}-it"
        client, standby = await face.client(deletion_grace_s=100.0), await face.client()
        writer = await client.open_writer(log, create=True)
        await writer.append(b"a")
        store = store_of(getattr(standby.target, "_target", standby.target))
        waiting = asyncio.ensure_future(
            said(standby.open_writer(log, wait_for_current_owner=30, hand_over=False))
        )
        assert await until(lambda store=store: _is("create_record" in store.asked))  # type: ignore[misc]  # bound now
        await getattr(client, end)(log)
        assert await until(lambda writer=writer: _is(not writer.active))  # type: ignore[misc]  # bound now
        seen += [await waiting, await said(standby.open_writer(log)), await said(writer.append(b"b"))]
    return seen


async def _read(face: Face, client: Asked, log: str, **options: Any) -> list[str]:
    reader = await client.reader(log, until="latest", **options)
    try:
        return [str(message.id) for message in await face.take(reader, 100)]
    finally:
        await reader.close()


async def a_metadata_cache(face: Face) -> list[str]:
    client = await face.client()
    cache = await client.metadata_cache()
    await cache.follow_logs(["orders"])
    snapshot = cache.snapshot
    seen = [str(len(snapshot.bookies.writable)), str(snapshot.contains_log("orders"))]
    writer = await client.open_writer("orders", create=True)
    while not (snapshot.contains_log("orders") and snapshot.log("orders").record.ledgers):
        snapshot = await cache.wait_for_change(snapshot)
    [listed] = snapshot.log("orders").record.ledgers
    await cache.follow_ledgers([listed.ledger_id])
    seen.append(str(len(cache.snapshot.endpoints(listed.ledger_id, 0))))
    await cache.forget(listed.ledger_id)
    await cache.forget("orders")
    seen.append(f"{len(cache.snapshot.logs)} {len(cache.snapshot.ledgers)}")
    await writer.close()
    for logs in ("orders", 7, [7], [None], ["no/such name"]):
        seen.append(await said(cache.follow_logs(logs)))
    for ledgers in (5, "x", ["x"], [True]):
        seen.append(await said(cache.follow_ledgers(ledgers)))
    seen += [
        await said(cache.forget(None)),
        await said(cache.refresh(1.5)),
        await said(cache.refresh("orders")),
    ]
    seen += [await said(cache.wait_for_change(None)), await said(cache.close()), await said(cache.close())]
    seen += [await said(_fact(cache, "snapshot")), await said(cache.wait_for_change(snapshot))]
    seen += [await said(cache.follow_logs(["orders"])), await said(cache.follow_ledgers([1]))]
    return [*seen, await said(cache.forget("orders")), await said(cache.refresh("orders"))]


SCENES: dict[Callable[[Face], Awaitable[list[str]]], list[str]] = {
    a_producer: [
        "billing None",
        "Appended(sequence=3, message_id=MessageId(ledger_id=1, entry_id=0, batch_index=0), new=1)",
        "Appended(sequence=3, message_id=MessageId(ledger_id=1, entry_id=0, batch_index=0), new=0)",
        "Appended(sequence=4, message_id=MessageId(ledger_id=1, entry_id=1, batch_index=0), new=1)",
        "Appended(sequence=9, message_id=MessageId(ledger_id=1, entry_id=2, batch_index=1), new=2)",
        "9",
        *["ConfigurationError", "InvalidNameError"],
        *["True", "False"],
        "AppendAbortedError",
    ],
    order_of_appends: [
        "[True, True, True]",
        "None",
        "None",
        "None",
        "[(b'a', None, ()), (b'b', b'k', ((b'h', b'v'),)), (b'c', None, ()), (b'd', None, ()), (b'e', None, ()), "
        "(b'f', None, ()), (None, None, ())]",
    ],
    wrong_arguments: [
        *["ConfigurationError"] * 3,
        *["MessageTooLargeError"] * 3,
        "AppendRejectedError",
        "ConfigurationError",
        "1:0:0",
        "None",
    ],
    a_closed_writer: ["False", *["AppendAbortedError"] * 3, "None", "AppendAbortedError"],
    a_deposed_writer: [
        "WriterDeposedError",
        "WriterDeposedError",
        "False",
        "AppendsFailedError",
        "None",
        "None",
        "[b'a', b'g']",
    ],
    unread_failures: [
        "with: 3 AppendIndeterminateError default/with",
        "with error: left",
        "1",
        "AppendsFailedError",
        "flush: left",
        *["AppendIndeterminateError"] * 3,
        "read: left",
    ],
    backpressure: ["True", "CallTimeoutError", "True", "64"],
    where_a_reader_is: [
        "b'a' 1:0:1",
        "False",
        "b'b' 1:0:2",
        "False",
        "b'c' 1:1:0",
        "b'd' 1:2:0",
        "Lag(entries=0, ledgers=0, messages=0, bytes=0)",
        "1:2:0 1:3:0",
        "1:3:0",
        "ConfigurationError",
        "[b'a', b'b', b'c', b'd', b'e']",
    ],
    polling: [
        *["None", "False"],
        *["b'a'", "b'b' 1:0:2", "b'c'", "None", "b'd'"],
        "ConfigurationError",
        *["b'c'", "b'd'", "None", "True", "None"],
        "LogNotFoundError",
        *["ConfigurationError", "None"],
    ],
    arrow_data: [
        "b'0a' 1:0:1",
        "{'value': [b'0b', None]}",
        "1:1:0",
        "1:1:1",
        "{'batch_index': [1, 2, 0, 1, 2], 'key': [None, b'', b'k', None, b'']}",
        *["1:3:0", "True"],
        "ConfigurationError",
        "ConfigurationError",
        "ConfigurationError",
        "{'value': [b'2a', b'2b', None]}",
        *["ConfigurationError", "ConfigurationError", "None"],
    ],
    a_metadata_cache: [
        *["3", "False", "3", "0 0"],
        *["ConfigurationError"] * 4,
        "InvalidNameError",
        *["ConfigurationError"] * 6,
        "None",
        *["ConfigurationError", "None", "None"],
        *["ConfigurationError"] * 6,
    ],
    errors_of_readers_and_clients: [
        "LogNotFoundError",
        "TrimmedError",
        "UnknownPositionError",
        "4:0:0",
        "",
        "ConfigurationError",
        "ConfigurationError",
        "LogExistsError",
        "InvalidNameError",
        "LogNotFoundError",
        "ShrinkRefusedError",
        "LogNotFoundError",
        "orders",
        "LogSealedError",
    ],
    standbys_of_logs_that_end: [
        *["LogSealedError", "LogSealedError", "WriterDeposedError"],
        *["LogSealedError", "LogSealedError", "WriterDeposedError"],
    ],
}
"""What each scene says, in both APIs."""


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
async def test_both_apis_report_the_same(scene: Callable[[Face], Awaitable[list[str]]]) -> None:
    seen = {}
    for name in ("asyncio", "blocking"):
        async with asyncio.timeout(50), face_of(name) as face:
            seen[name] = await scene(face)
    assert seen["blocking"] == seen["asyncio"]
    assert seen["asyncio"] == SCENES[scene]
