"""Runs `async def` tests: each on an event loop of its own, as production runs (uvloop where there is one)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable

import pytest


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(test(**arguments))
    return True
