"""The blocking API and the asyncio API have the same methods with the same parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from dlog import aio
from dlog.blocking.client import Client, connect
from dlog.blocking.metadata_cache import MetadataCache
from dlog.blocking.producer import Producer
from dlog.blocking.reader import Reader
from dlog.blocking.writer import Writer
from dlog.cache.metadata_cache import MetadataCache as AsyncMetadataCache
from dlog.client import LogClient
from dlog.local.embedded import AsyncStandalone, Standalone
from dlog.read.reader import Reader as AsyncReader
from dlog.write.producer import LogProducer
from dlog.write.writer import LogWriter

CLASSES = [
    (Client, LogClient),
    (Writer, LogWriter),
    (Reader, AsyncReader),
    (Producer, LogProducer),
    (MetadataCache, AsyncMetadataCache),
]

ASYNCIO_ONLY = {
    Client: {"start", "name"},  # `connect` starts it; a part of the client
    Writer: {
        "submit_nowait",
        "batch_of",
        "submit_batch",
        "submit_expecting",
        "start_flush",
        "closed_error",
        "undecided_error",
        "full_error",
    },
    Reader: {
        "ack_below",
        "open_by",
        "next_item",
        "next_items",
        "next_fetched",
        "put_back",
        "record_batches",
        "repr_at",
        "lag_from",
        "measure_lag_from",
        "note_unreturned",
        "refuse_gaps",
    },
    Producer: {"batch_of", "submit_batch"},
    MetadataCache: {"start", "on_change"},
}
"""`submit_nowait` is `submit(timeout_s=0)`, `on_change` a loop of `wait_for_change`; the others are what the
blocking API is made from.
"""
BLOCKING_ONLY = {
    Client: {"abandon"},
    Writer: {"drain"},
    Reader: set[str](),
    Producer: set[str](),
    MetadataCache: set[str](),
}
"""Parts of the client's `close`, and what ends one that is dropped."""
FACTS_OF_ASYNCIO_ONLY = {
    Client: {"writers"},
    Writer: {
        "over",
        "record",
        "position",
        "buffered_bytes",
        "buffer_bytes_max",
        "free_bytes",
        "has_unread_failures",
        "batch_limits",
    },
    Reader: {"log", "until"},
    Producer: set[str](),
    MetadataCache: set[str](),
}
"""They change between two lines of a program whose loop runs in another thread."""
FACTS_OF_BLOCKING_ONLY = {
    Client: {"namespace"},  # an attribute of the asyncio client
    Writer: {"is_open", "has_undecided"},
    Reader: set[str](),
    Producer: set[str](),
    MetadataCache: set[str](),
}


ASYNCIO_WORDS = ("LogClient", "LogWriter", "LogProducer", "`await", "await it", "async with", "coroutine")


def names(of: type, kind: Callable[[Any], bool]) -> set[str]:
    return {name for name, _ in inspect.getmembers(of, kind) if not name.startswith("_")}


def parameters(method: Callable[..., Any], without: str = "") -> list[tuple[str, Any, Any, Any]]:
    """Name, kind, default and annotation of each."""
    found = inspect.signature(method).parameters.values()
    return [(one.name, one.kind, one.default, one.annotation) for one in found if one.name != without]


@pytest.mark.parametrize(("blocking", "asyncio"), CLASSES, ids=lambda one: one.__name__)
def test_both_have_the_same_methods_and_facts(blocking: type, asyncio: type) -> None:
    ours, theirs = names(blocking, inspect.isfunction), names(asyncio, inspect.isfunction)
    assert ours - theirs == BLOCKING_ONLY[blocking]
    assert theirs - ours == ASYNCIO_ONLY[blocking]
    ours, theirs = (names(one, lambda member: isinstance(member, property)) for one in (blocking, asyncio))
    assert ours - theirs == FACTS_OF_BLOCKING_ONLY[blocking]
    assert theirs - ours == FACTS_OF_ASYNCIO_ONLY[blocking]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        pytest.param(getattr(blocking, name), getattr(asyncio, name), id=f"{blocking.__name__}.{name}")
        for blocking, asyncio in CLASSES
        for name in sorted(names(blocking, inspect.isfunction) & names(asyncio, inspect.isfunction))
    ],
)
def test_a_method_has_the_same_parameters(ours: Callable[..., Any], theirs: Callable[..., Any]) -> None:
    """Except that every blocking call that waits takes `timeout_s`, the last of them."""
    if "timeout_s" in inspect.signature(theirs).parameters:
        assert parameters(ours) == parameters(theirs)
        return
    assert parameters(ours, without="timeout_s") == parameters(theirs)
    timeout = inspect.signature(ours).parameters.get("timeout_s")
    returned = str(inspect.signature(theirs).return_annotation)
    waits = inspect.iscoroutinefunction(theirs) or returned.startswith(("Coroutine", "Opening"))
    assert (timeout is not None) == waits
    if timeout is not None:
        assert timeout.default is None
        assert list(inspect.signature(ours).parameters)[-1] == "timeout_s"


def test_connect_has_the_same_parameters() -> None:
    """Except for the environment, which only the simulator replaces."""
    assert parameters(connect, without="timeout_s") == parameters(aio.connect, without="environment")


@pytest.mark.parametrize("blocking", [blocking for blocking, _ in CLASSES], ids=lambda one: one.__name__)
def test_every_method_is_documented_in_the_words_of_its_api(blocking: type) -> None:
    for name in names(blocking, inspect.isfunction):
        text = inspect.getdoc(getattr(blocking, name))
        assert text, name
        assert not [word for word in ASYNCIO_WORDS if word in text], name


def test_a_local_cluster_has_the_same_methods_and_facts() -> None:
    """Without `timeout_s`: each call has limits of its own."""

    def public(api: type) -> set[str]:
        return {name for name in vars(api) if not name.startswith("_")}

    assert public(Standalone) == public(AsyncStandalone)
