"""A call of a producer that counts from when it is made, and not from its first step."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")


class ProducerCall(Coroutine[Any, Any, T]):
    """A coroutine that reports if it is given up before its first step: asyncio then runs nothing of it.

    `asyncio.wait_for` gives up without time left, and a task that is cancelled before the loop came to it. If that task
    was to run `wait_for` with this call, the call is only dropped.
    """

    def __init__(self, work: Coroutine[Any, Any, T], on_given_up: Callable[[], None]) -> None:
        self._work = work
        self._on_given_up = on_given_up
        self._has_begun = False

    def __await__(self) -> Generator[Any, Any, T]:
        self._has_begun = True
        return self._work.__await__()

    def send(self, value: Any) -> Any:
        self._has_begun = True
        return self._work.send(value)

    def throw(self, *error: Any) -> Any:
        self._give_up()
        return self._work.throw(*error)

    def close(self) -> None:
        self._give_up()
        self._work.close()

    def __del__(self) -> None:
        self._give_up()

    def _give_up(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            self._on_given_up()
