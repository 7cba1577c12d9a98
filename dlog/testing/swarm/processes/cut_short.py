"""Cancels a call at some instant, as a program does whose own deadline has passed."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")
_AFTER_S = (0.0, 0.002, 0.02, 0.2, 2.0)


class CutShortError(Exception):
    """The call was cancelled."""


async def cut_short(work: Coroutine[Any, Any, T], rng: Random, *, share: float) -> T:
    """Its result, or what it raises. This `share` of calls is cancelled unless they end early.

    In a task of its own: a timeout in the caller's task may cancel what the caller does next.

    Raises:
        CutShortError: the call was cancelled.
    """
    if rng.random() >= share:
        return await work
    task = asyncio.get_running_loop().create_task(work)
    try:
        await asyncio.wait([task], timeout=rng.choice(_AFTER_S) * rng.random())
        task.cancel()
        await asyncio.wait([task])
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait([task])
        raise
    if task.cancelled():
        raise CutShortError
    return task.result()
