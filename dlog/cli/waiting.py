"""Reports on stderr why a command prints no message: one that waits for bookies must not look like an idle log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, TypeVar

from ledger.command_line import say
from ledger.errors import UnavailableError

if TYPE_CHECKING:
    from dlog.blocking.reader import Reader
    from ledger.environment import Environment

T = TypeVar("T")

_LOOK_S = 1.0
_LOOKS = 3
"""An outage that is seen less often, as of a bookie that restarts, is not reported."""


@contextmanager
def reporting_outages(reader: Reader) -> Iterator[Reader]:
    """Open the reader; a line for each outage, and one when reading goes on."""
    ended = Event()
    watch = Thread(target=_watch, args=(reader, ended), name="dlog outages", daemon=True)
    watch.start()
    try:
        with reader:
            yield reader
    finally:
        ended.set()
        watch.join()


def _watch(reader: Reader, ended: Event) -> None:
    looks = 0
    while not ended.wait(_LOOK_S):
        outage, before = reader.outage, looks
        looks = 0 if outage is None else before + 1
        if looks == _LOOKS:
            _say_waiting(outage)
        elif before >= _LOOKS and not looks:
            _say_it_goes_on()


async def until_available(find: Callable[[], Awaitable[T]], environment: Environment, timeout_s: float) -> T:
    """What `find` returns, as `dlog.backoff.until_available` does; reports what it waits for."""
    import asyncio

    from dlog import backoff

    now, is_reported = asyncio.get_running_loop().time, False
    began = now()

    def report(outage: UnavailableError) -> None:
        nonlocal is_reported
        if not is_reported and now() >= began + _LOOKS * _LOOK_S:
            is_reported = True
            _say_waiting(outage)

    found = await backoff.until_available(find, environment, timeout_s, report)
    if is_reported:
        _say_it_goes_on()
    return found


def _say_waiting(outage: UnavailableError | None) -> None:
    say("dlog", f"waiting: {outage}")


def _say_it_goes_on() -> None:
    say("dlog", "reading goes on")
