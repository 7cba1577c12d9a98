"""Begins tasks on the event loop of the program, whatever it has set there."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def start_task(work: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
    """A task of the running loop, as `create_task` makes it; its first step comes after the caller's.

    Invariant: nothing of `work` runs inside this call. A task factory of the program may do that, as
    `asyncio.eager_task_factory` does: what a call shares with earlier ones would have begun before it, and `work`
    could end before its owner has noted the task. So a loop's factory is not used.
    """
    loop = asyncio.get_running_loop()
    if loop.get_task_factory() is None:
        return loop.create_task(work, name=name)
    return asyncio.Task(work, loop=loop, name=name)
