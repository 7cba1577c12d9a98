"""An event that can be waited for together with other things, without a task of its own."""

from __future__ import annotations

import asyncio
from typing import Any


class Signal:
    """As asyncio.Event, but a waiter holds a future, and none is created without a waiter."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: list[asyncio.Future[Any]] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def clear(self) -> None:
        self._is_set = False

    def future(self) -> asyncio.Future[Any]:
        """Done, with None, when the signal is set, immediately if it is. What else may end the wait gives it another
        result; cancel it when it is not awaited any more.
        """
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._is_set:
            future.set_result(None)
        else:
            self._waiting = [each for each in self._waiting if not each.done()]
            self._waiting.append(future)
        return future
