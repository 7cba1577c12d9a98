"""Every public function answers an argument of a wrong type with an error of our tree that says what it takes.

Not with what Python raises somewhere inside, which may come late, from another thread, or name a private thing.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pytest

import dlog
from dlog.blocking.client import Client
from dlog.client import LogClient
from dlog.core.batching import BatchLimits
from dlog.core.rotation_triggers import RotationLimits
from dlog.local.embedded import Standalone
from dlog.read.config import ReaderConfig
from dlog.write.writer import LogWriter
from ledger.client import LedgerClient
from ledger.config import LedgerClientConfig
from ledger.errors import ConfigurationError
from ledger.metadata.drivers import open_store, register_driver
from ledger.model import QuorumSizes
from ledger.reading.read_handle import ReadHandle
from ledger.writing.write_handle import WriteHandle

pytestmark = pytest.mark.integration

KINDS: dict[str, object] = {
    "none": None,
    "int": 7,
    "negative": -7,
    "float": 1.5,
    "nan": float("nan"),
    "bool": True,
    "bytes": b"x",
    "text": "1:2",
    "id text": "0:0:0",
    "tuple": (1, 2, 3),
    "list": [object()],
    "object": object(),
}


@dataclass(frozen=True)
class Place:
    """One of everything that takes calls."""

    scratch: Path
    uri: str
    client: Client
    writer: Any
    reader: Any
    runner: asyncio.Runner
    async_client: LogClient
    async_writer: LogWriter
    ledgers: LedgerClient
    write_handle: WriteHandle
    read_handle: ReadHandle

    def run(self, work: Awaitable[Any]) -> Any:
        async def limited() -> Any:
            return await asyncio.wait_for(work, 20)

        return self.runner.run(limited())

    def call(self, function: Callable[[], Any]) -> Any:
        """A function that needs the loop; what it returns is awaited if it can be."""

        async def called() -> Any:
            found = function()
            if hasattr(found, "__await__"):
                found = await asyncio.wait_for(found, 20)
            return await asyncio.wait_for(found, 20) if isinstance(found, asyncio.Future) else found

        return self.runner.run(called())


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    scratch = tmp_path_factory.mktemp("arguments")
    with ExitStack() as stack:
        cluster = stack.enter_context(Standalone(scratch / "data"))
        client = stack.enter_context(dlog.connect(cluster.uri))
        runner = stack.enter_context(asyncio.Runner())
        writer = stack.enter_context(client.open_writer("sync", create=True))
        writer.append(b"x")
        reader = stack.enter_context(client.reader("sync", until="latest"))
        async_client = runner.run(_connect(cluster.uri))
        stack.callback(lambda: runner.run(async_client.close()))
        async_writer = runner.run(async_client.open_writer("async", create=True))
        ledgers = async_client.ledgers
        handle = runner.run(ledgers.create(QuorumSizes()))
        runner.run(handle.add(b"x"))
        opened = runner.run(ledgers.open(handle.ledger_id))
        stack.callback(lambda: runner.run(opened.close()))
        stack.callback(lambda: runner.run(handle.close()))
        yield Place(
            scratch,
            cluster.uri,
            client,
            writer,
            reader,
            runner,
            async_client,
            async_writer,
            ledgers,
            handle,
            opened,
        )


async def _connect(uri: str) -> LogClient:
    return await dlog.aio.connect(uri)


Call = Callable[[Place, Any], Any]

NAME = {"text", "id text"}  # of a log: those are no names, and say so
NUMBER = {"int", "negative", "float"}

CALLS: dict[str, tuple[Call, set[str]]] = {
    # what is called, and the kinds that it may take without an error
    "connect(uri)": (lambda p, v: dlog.connect(v), set()),
    "connect(namespace)": (lambda p, v: dlog.connect(p.uri, v), set()),
    "connect(config)": (lambda p, v: dlog.connect(p.uri, config=v).close(), {"none"}),
    "aio.connect(uri)": (lambda p, v: p.run(dlog.aio.connect(v).__aenter__()), set()),
    "aio.connect(namespace)": (lambda p, v: p.run(dlog.aio.connect(p.uri, v).__aenter__()), set()),
    "standalone(directory)": (lambda p, v: dlog.standalone(v), NAME),
    "standalone(bookies)": (lambda p, v: dlog.standalone(p.scratch / "s", v), {"int"}),
    "standalone(metadata)": (lambda p, v: dlog.standalone(p.scratch / "s", metadata=v), {"none", *NAME}),
    "aio.standalone(directory)": (lambda p, v: dlog.aio.standalone(v), NAME),
    "create": (lambda p, v: p.client.create(v), set()),
    "open_writer": (lambda p, v: p.client.open_writer(v, create=True), set()),
    "open_writer(given_up, create=True)": (
        lambda p, v: p.client.open_writer("given", given_up=v, create=True).close(),
        {"tuple"},
    ),
    "delete(given_up)": (lambda p, v: p.client.delete("given", given_up=v), {"tuple"}),
    "reader(log)": (lambda p, v: p.client.reader(v), set()),
    "reader(start)": (lambda p, v: p.client.reader("sync", v).close(), {"none", "id text"}),
    "reader(after)": (lambda p, v: p.client.reader("sync", after=v).close(), {"none", "id text"}),
    "reader(until)": (lambda p, v: p.client.reader("sync", until=v).close(), {"none", "id text"}),
    "reader(last)": (lambda p, v: p.client.reader("sync", last=v).close(), {"none", "int"}),
    "reader(on_trimmed)": (lambda p, v: p.client.reader("sync", on_trimmed=v), set()),
    "reader(on_data_loss)": (lambda p, v: p.client.reader("sync", on_data_loss=v), set()),
    "reader(config)": (lambda p, v: p.client.reader("sync", config=v).close(), {"none"}),
    "tail(log)": (lambda p, v: p.client.tail(v), set()),
    "tail(start)": (lambda p, v: p.client.tail("sync", start=v).close(), {"none", "id text"}),
    "tail(last)": (lambda p, v: p.client.tail("sync", last=v).close(), {"none", "int"}),
    "describe": (lambda p, v: p.client.describe(v), set()),
    "rotate": (lambda p, v: p.client.rotate(v), set()),
    "shrink(log)": (lambda p, v: p.client.shrink(v, dlog.MessageId(0, 0, 0)), set()),
    "shrink(before)": (lambda p, v: p.client.shrink("sync", v), {"id text"}),
    "seal": (lambda p, v: p.client.seal(v), set()),
    "delete": (lambda p, v: p.client.delete(v), set()),
    "aio.shrink(before)": (lambda p, v: p.run(p.async_client.shrink("async", v)), {"id text"}),
    "aio.resolve": (lambda p, v: p.run(p.async_client.resolve("async", v)), {"id text"}),
    "aio.collect": (lambda p, v: p.run(p.async_client.collect(v)), set()),
    "append(payload)": (lambda p, v: p.writer.append(v), {"none", "bytes"}),
    "append(key)": (lambda p, v: p.writer.append(b"x", v), {"none", "bytes"}),
    "append(headers)": (lambda p, v: p.writer.append(b"x", headers=v), {"none"}),
    "append_many(payloads)": (lambda p, v: p.writer.append_many(v), set()),
    "append_many(keys)": (lambda p, v: p.writer.append_many([b"x"], keys=v), {"none"}),
    "append_many(headers)": (lambda p, v: p.writer.append_many([b"x"], headers=v), {"none"}),
    "writer.close(timeout_s)": (
        lambda p, v: p.client.open_writer("c", create=True).close(v),
        {*NUMBER, "none"},
    ),
    "result(timeout_s)": (lambda p, v: p.writer.submit(b"x").result(v), {*NUMBER, "none"}),
    "aio.append(payload)": (lambda p, v: p.run(p.async_writer.append(v)), {"none", "bytes"}),
    "aio.append(key)": (lambda p, v: p.run(p.async_writer.append(b"x", v)), {"none", "bytes"}),
    "aio.append(headers)": (lambda p, v: p.run(p.async_writer.append(b"x", headers=v)), {"none"}),
    "aio.append(expect_tail)": (lambda p, v: p.run(p.async_writer.append(b"x", expect_tail=v)), {"none"}),
    "aio.append_many(payloads)": (lambda p, v: p.run(p.async_writer.append_many(v)), set()),
    "aio.append_many(keys)": (lambda p, v: p.run(p.async_writer.append_many([b"x"], keys=v)), {"none"}),
    "aio.append_many(headers)": (lambda p, v: p.run(p.async_writer.append_many([b"x"], headers=v)), {"none"}),
    "aio.append_many(expect_tail)": (
        lambda p, v: p.run(p.async_writer.append_many([b"x"], expect_tail=v)),
        {"none"},
    ),
    "aio.submit": (lambda p, v: p.call(lambda: p.async_writer.submit(v)), {"none", "bytes"}),
    "aio.submit_nowait": (lambda p, v: p.call(lambda: p.async_writer.submit_nowait(v)), {"none", "bytes"}),
    "MessageId.parse": (lambda p, v: dlog.MessageId.parse(v), {"id text"}),
    "MessageId.from_bytes": (lambda p, v: dlog.MessageId.from_bytes(v), set()),
    "QuorumSizes": (lambda p, v: QuorumSizes(ensemble=v), {"int"}),
    "open_store": (lambda p, v: p.run(open_store(v)), set()),
    "register_driver(scheme)": (lambda p, v: register_driver(v, open_store), set()),  # type: ignore[arg-type]
    "register_driver(factory)": (lambda p, v: register_driver("wrong", v), set()),
    "ledger.create(quorum)": (lambda p, v: p.run(p.ledgers.create(v)), set()),
    "ledger.create(password)": (lambda p, v: p.run(p.ledgers.create(QuorumSizes(), password=v)), {"bytes"}),
    "ledger.create(digest)": (lambda p, v: p.run(p.ledgers.create(QuorumSizes(), digest_type=v)), set()),
    "ledger.create(custom)": (lambda p, v: p.run(p.ledgers.create(QuorumSizes(), custom=v)), set()),
    "ledger.open": (lambda p, v: p.run(p.ledgers.open(v)), set()),
    "ledger.open(password)": (lambda p, v: p.run(p.ledgers.open(p.write_handle.ledger_id, v)), set()),
    "ledger.open_with_recovery": (lambda p, v: p.run(p.ledgers.open_with_recovery(v)), set()),
    "ledger.delete": (lambda p, v: p.run(p.ledgers.delete(v)), {"int"}),
    "ledger.add": (lambda p, v: p.run(p.write_handle.add(v)), {"bytes"}),
    "ledger.submit": (lambda p, v: p.call(lambda: p.write_handle.submit(v)), {"bytes"}),
    "ledger.read(first)": (lambda p, v: p.run(p.read_handle.read(v, 0)), set()),
    "ledger.read(last)": (lambda p, v: p.run(p.read_handle.read(0, v)), set()),
    "ledger.read_batch(first)": (
        lambda p, v: p.run(p.read_handle.read_batch(v, max_entries=1, max_bytes=9)),
        set(),
    ),
    "ledger.read_batch(max_entries)": (
        lambda p, v: p.run(p.read_handle.read_batch(0, max_entries=v, max_bytes=9)),
        {"int"},
    ),
    "ledger.wait_for_lac(beyond)": (
        lambda p, v: p.run(p.read_handle.wait_for_lac(v, 0.1)),
        {"int", "negative"},
    ),
    "ledger.wait_for_lac(timeout)": (lambda p, v: p.run(p.read_handle.wait_for_lac(-1, v)), NUMBER),
}


@pytest.mark.parametrize("called", CALLS)
def test_a_wrong_argument_is_an_error_of_ours(place: Place, called: str) -> None:
    function, taken = CALLS[called]
    wrong = []
    for kind, value in KINDS.items():
        try:
            function(place, value)
        except ConfigurationError as error:
            if kind in taken and kind in ("none", "bytes", "id text"):
                wrong.append(f"{kind} is refused: {error}")
        except dlog.errors.LogStoreError as error:
            if kind not in taken and kind not in NUMBER | NAME:
                wrong.append(f"{kind}: {type(error).__name__}: {error}")
        except TimeoutError:
            assert called == "result(timeout_s)" and kind == "negative"
        except Exception as error:  # noqa: BLE001  # what this test is about
            wrong.append(f"{kind}: {type(error).__name__}: {error}")
        else:
            if kind not in taken:
                wrong.append(f"{kind} is taken")
    assert wrong == [], "\n".join(wrong)


CONFIGS = (
    dlog.Retention(),
    dlog.LogConfig(),
    ReaderConfig(),
    BatchLimits(),
    RotationLimits(),
    LedgerClientConfig(),
    QuorumSizes(),
)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: type(config).__name__)
def test_a_setting_of_a_wrong_type(config: Any) -> None:
    """For every setting there is: named with what it may be, where it is made."""
    for field in fields(config):
        for value in (object(), [1], {"a": 1}):
            with pytest.raises(ConfigurationError, match=f"{field.name} of {type(config).__name__} must be "):
                replace(config, **{field.name: value})
        if getattr(config, field.name) is not None:
            with pytest.raises(ConfigurationError, match=field.name):
                replace(config, **{field.name: None})


LOG = {"log": "sync"}
NO_LOG = {"log": "absent"}
OF_CLIENT: dict[str, dict[str, Any]] = {
    # each method of a client: arguments with which it succeeds, or fails because there is no such log
    "apply_retention": LOG,
    "close": {},
    "collect": LOG,
    "create": {"log": "created"},
    "cursor_lag": {**LOG, "cursor": "c"},
    "cursors": LOG,
    "delete": NO_LOG,
    "delete_cursor": {**LOG, "cursor": "absent"},
    "describe": LOG,
    "explain": {**LOG, "message_id": "0:0:0"},
    "history": LOG,
    "list": {},
    "list_ledgers": LOG,
    "metadata_cache": {},
    "open_writer": NO_LOG,
    "overview": LOG,
    "plan_retention": {**LOG, "retention": dlog.Retention(max_messages=1)},
    "properties": LOG,
    "reader": LOG,
    "resolve": {**LOG, "message_id": "0:0:0"},
    "retention": LOG,
    "rotate": NO_LOG,
    "seal": NO_LOG,
    "set_cursor": {**LOG, "cursor": "c", "position": "earliest"},
    "set_retention": {**LOG, "retention": dlog.Retention()},
    "shrink": {**LOG, "before": "0:0:0"},
    "sweep": {},
    "tail": LOG,
    "update_properties": {**LOG, "changes": {}},
    "verify": LOG,
}
OF_READER: dict[str, dict[str, Any]] = {"ack": {}, "close": {}, "open": {}, "poll": {}}
BY_ID = {"id text"}
TAKEN: dict[str, set[str]] = {
    # by the name of a parameter: the kinds that it may take
    "log": set(),
    "cursor": set(),
    "reader.cursor": {"none"},
    "timeout_s": {"none", *NUMBER},
    "wait_for_current_owner": {"none", *NUMBER},
    "create": {"bool"},
    "hand_over": {"bool"},
    "force": {"bool"},
    "follow": {"bool"},
    "last": {"none", "int"},
    "start": {"none", *BY_ID},
    "after": {"none", *BY_ID},
    "until": {"none", *BY_ID},
    "position": BY_ID,
    "before": BY_ID,
    "message_id": BY_ID,
    "upto": {"none", *BY_ID},
    "properties": {"none"},
    "changes": set(),
    "retention": set(),
    "plan_retention.retention": {"none"},
    "given_up": {"tuple"},
    "on_progress": {"none"},
    "config": {"none"},
    "on_trimmed": set(),
    "on_data_loss": set(),
    "on_takeover_lost": set(),
}


def parameters(owner: type, methods: dict[str, dict[str, Any]]) -> list[tuple[str, str]]:
    return [
        (name, parameter)
        for name in methods
        for parameter in list(inspect.signature(getattr(owner, name)).parameters)[1:]
    ]


def refused(call: Callable[[Any], Any], taken: set[str]) -> list[str]:
    """Kinds that are taken although they are wrong, or end in an error that is not ours."""
    wrong = []
    for kind, value in KINDS.items():
        try:
            found = call(value)
            if hasattr(found, "close"):
                found.close()
        except ConfigurationError as error:
            if kind in taken & {"none", "bool"}:
                wrong.append(f"{kind} is refused: {error}")
        except dlog.errors.LogStoreError as error:
            if kind not in taken:
                wrong.append(f"{kind}: {type(error).__name__}: {error}")
        except Exception as error:  # noqa: BLE001  # what this test is about
            wrong.append(f"{kind}: {type(error).__name__}: {error}")
        else:
            if kind not in taken:
                wrong.append(f"{kind} is taken")
    return wrong


def test_every_method_of_a_client_is_tried() -> None:
    public = {name for name, _ in inspect.getmembers(Client, callable) if not name.startswith("_")}
    assert public - {"warn_unclosed", "abandon"} == set(OF_CLIENT)


@pytest.mark.parametrize(("method", "parameter"), parameters(Client, OF_CLIENT))
def test_a_wrong_argument_of_a_client_is_an_error_of_ours(place: Place, method: str, parameter: str) -> None:
    def call(value: Any) -> Any:
        if method == "close":
            with dlog.connect(place.uri) as client:  # it stays open if this is refused
                return client.close(value)
        return getattr(place.client, method)(**{**OF_CLIENT[method], parameter: value})

    if method == "cursor_lag":
        place.client.set_cursor("sync", "c", "earliest")
    taken = TAKEN.get(f"{method}.{parameter}", TAKEN[parameter])
    assert refused(call, taken) == []


@pytest.mark.parametrize(("method", "parameter"), parameters(dlog.Reader, OF_READER))
def test_a_wrong_argument_of_a_reader_is_an_error_of_ours(place: Place, method: str, parameter: str) -> None:
    def call(value: Any) -> Any:
        with place.client.reader("sync", until="latest", cursor="wrong") as reader:
            reader.open()
            return getattr(reader, method)(**{parameter: value})

    assert refused(call, TAKEN[parameter]) == []
