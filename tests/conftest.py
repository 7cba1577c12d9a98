"""Runs `async def` tests, each on an event loop of its own as production does; and the ZooKeeper that tests share."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.helpers.processes.ports import give_range
from tests.helpers.processes.zookeeper import ZooKeeperProcess
from tests.helpers.skips import pytest_make_collect_report, pytest_runtest_makereport

__all__ = ["pytest_make_collect_report", "pytest_runtest_makereport"]  # hooks, for pytest to find

# Hypothesis limits an example's time and that of drawing one by the clock, which on a busy machine are others' faults.
settings.register_profile(
    "busy machine", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("busy machine")


_LIMIT = pytest.StashKey[float]()
"""Seconds that a test may take: its `timeout` mark, or the option of that name."""


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> None:
    """Note the limit; the plugin sets its timer after this."""
    item.stash[_LIMIT] = settings.timeout


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Without garbage collections, which look at everything that was imported so far: they take half of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def pytest_configure() -> None:
    """A suite that a script has started in the background ignores Ctrl-C, and so would all that it starts."""
    give_range(os.environ)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with a slow test first: one that is started last would run alone, on one of all cores."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


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
    limit_s = pyfuncitem.stash.get(_LIMIT, None)

    async def limited() -> None:
        # uvloop logs what the signal handler of pytest-timeout raises, and goes on: it would wait indefinitely. If that
        # is raised inside the first limit's own callback, this cancels nothing; so there is a second one.
        async with asyncio.timeout(limit_s and limit_s + 1), asyncio.timeout(limit_s):
            await test(**arguments)

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(limited())
    return True


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    """A real server for all tests of this process, each of which has a root of its own."""
    server = ZooKeeperProcess(tmp_path_factory.mktemp("zookeeper"))
    server.start()
    yield server
    server.kill()
