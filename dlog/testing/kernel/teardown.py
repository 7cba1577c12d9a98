"""The end of a simulation: what was left running is closed, without a trace in the result.

A suspended coroutine cannot be dropped without its `finally` being run by the interpreter. So it is run here, when
the result and the digest are taken, the trace is ended and the loop does nothing any more.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Iterable
from contextlib import suppress
from inspect import CORO_CLOSED, CORO_SUSPENDED, getcoroutinestate, iscoroutine
from typing import Any

from dlog.testing.kernel.handles import SimulatedTask
from dlog.testing.kernel.nodes import Node

_TRIES = 100
"""A coroutine that awaits in its `finally` is closed once more, and so on; one that never ends is left alone."""


def close_leftovers(loop: asyncio.AbstractEventLoop, nodes: Iterable[Node]) -> None:
    """Close every coroutine that is not done. Whatever these do or raise is dropped."""
    outer, logging_below, unraisable = (
        asyncio._get_running_loop(),
        logging.root.manager.disable,
        sys.unraisablehook,
    )
    logging.disable(logging.CRITICAL)
    # What waits within an asynchronous generator cannot be closed from within, and complains when it is freed.
    sys.unraisablehook = _ignore
    asyncio._set_running_loop(loop)
    try:
        nodes = list(nodes)
        while tasks := [task for node in nodes for task in node.take_tasks()]:
            for task in tasks:
                _close(task)
    finally:
        asyncio._set_running_loop(outer)
        logging.disable(logging_below)
        sys.unraisablehook = unraisable


def _ignore(_: object) -> None:
    pass


def _close(task: SimulatedTask[Any]) -> None:
    task.silence()
    if task.done():
        # An exception that a dead node's task left is not our affair.
        with suppress(BaseException):
            task.exception()
        return
    coroutine: Any = task.get_coro()
    if not iscoroutine(coroutine):  # the `aclose` of a generator that was dropped
        with suppress(BaseException):
            coroutine.close()
        return
    for _ in range(_TRIES):
        try:
            # From within: an inner one that its outer one leaves behind would complain to stderr when it is freed.
            innermost(coroutine).close()
        except BaseException:  # noqa: BLE001  # it is over for this coroutine, whatever it thinks of that
            continue
        if getcoroutinestate(coroutine) == CORO_CLOSED:
            return


def innermost(coroutine: Any) -> Any:
    """The coroutine at the end of the chain of those that await another."""
    while getcoroutinestate(coroutine) == CORO_SUSPENDED and iscoroutine(coroutine.cr_await):
        if getcoroutinestate(coroutine.cr_await) == CORO_CLOSED:
            break
        coroutine = coroutine.cr_await
    return coroutine
