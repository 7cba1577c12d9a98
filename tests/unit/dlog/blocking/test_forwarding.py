"""What the rows of the blocking API have in common: they run on the loop, also those that wait for nothing."""

from __future__ import annotations

import threading
from typing import Any
from weakref import WeakKeyDictionary

import pytest

from dlog.blocking.client import Client
from dlog.blocking.loop_thread import LoopThread
from dlog.read.reader import Reader
from ledger.errors import ConfigurationError
from tests.helpers.log.blocking_log import blocking_log


class NotedReaders(WeakKeyDictionary[Reader, None]):
    """Notes which threads change it."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[str] = []

    def __setitem__(self, key: Reader, value: None) -> None:
        self.threads.append(threading.current_thread().name)
        super().__setitem__(key, value)


def test_readers_are_made_on_the_loop() -> None:
    """A client that is closed iterates there over its readers, and a dict must not change while it does."""
    with blocking_log() as log:
        client = log.client()
        client.create("orders")
        target: Any = client._target
        target._readers = noted = NotedReaders()
        client.reader("orders").close()
        client.tail("orders").close()
        assert noted.threads == ["dlog test", "dlog test"]


def test_a_closed_client_makes_no_reader() -> None:
    thread = LoopThread("dlog test")
    target: Any = None
    client = Client(thread, target)
    thread.close()
    for method in (client.reader, client.tail):
        with pytest.raises(ConfigurationError, match="this client is closed"):
            method("orders")
