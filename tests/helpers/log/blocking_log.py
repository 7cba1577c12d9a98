"""The blocking client over bookies and a metadata store that do what a test tells them (scripted_log.py)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any, TypeVar

from dlog.blocking.client import Client
from dlog.blocking.loop_thread import LoopThread
from dlog.client import LogClient
from tests.helpers.log.scripted_log import ScriptedLog, scripted_log

T = TypeVar("T")


class BlockingLog:
    """All of it on one loop in a thread of its own."""

    def __init__(self, thread: LoopThread, log: ScriptedLog, stack: AsyncExitStack) -> None:
        self._thread = thread
        self._log = log
        self._stack = stack
        self._clients: list[Client] = []
        """Held until the loop has ended: none of them is closed by itself."""

    def client(self, **settings: Any) -> Client:
        """It ends with the block, and not by its `close`, which would end the loop of all."""

        async def connect() -> LogClient:
            return await self._stack.enter_async_context(self._log.client(**settings))

        self._clients.append(Client(self._thread, self._thread.run(connect)))
        return self._clients[-1]

    def on_loop(self, function: Callable[[ScriptedLog], T]) -> T:
        """Tell the bookies something."""
        return self._thread.call(lambda: function(self._log))

    def be_silent(self) -> None:
        self.on_loop(lambda log: [bookie.be_silent() for bookie in log.bookies])

    def speak(self) -> None:
        self.on_loop(lambda log: [bookie.speak() for bookie in log.bookies])


@contextmanager
def blocking_log(bookies: int = 3) -> Iterator[BlockingLog]:
    thread = LoopThread("dlog test", new_loop=asyncio.new_event_loop)
    stack = AsyncExitStack()

    async def start() -> ScriptedLog:
        return await stack.enter_async_context(scripted_log(bookies))

    log = BlockingLog(thread, thread.run(start), stack)
    try:
        yield log
    finally:
        log.speak()
        thread.run(stack.aclose)
        thread.close()
