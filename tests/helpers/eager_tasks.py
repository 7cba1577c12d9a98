"""The task factory `asyncio.eager_task_factory`, also for Python 3.11, which has none."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


def eager_task_factory(
    loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **options: Any
) -> asyncio.Task[Any]:
    """A task whose first step is done within the call that makes it."""
    options.pop("eager_start", None)  # uvloop passes it; asyncio's factory takes it from Python 3.13.3 on
    eager = getattr(asyncio, "eager_task_factory", None)
    if eager is not None:
        task: asyncio.Task[Any] = eager(loop, work, **options)
        return task
    return asyncio.Task(_Begun(work), loop=loop, **options)


class _Begun(Coroutine[Any, Any, Any]):
    """A coroutine whose first step is done; its outcome is that of the first `send`."""

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self._work = work
        self._first: tuple[Any, BaseException | None] | None
        try:
            self._first = (work.send(None), None)
        except BaseException as error:  # noqa: BLE001 - raised by the first `send`
            self._first = (None, error)

    def send(self, value: Any) -> Any:
        first, self._first = self._first, None
        if first is None:
            return self._work.send(value)
        waits_for, error = first
        if error is not None:
            raise error
        return waits_for

    def throw(self, *error: Any) -> Any:
        self._first = None
        return self._work.throw(*error)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Any:
        raise NotImplementedError("only a task runs it")
