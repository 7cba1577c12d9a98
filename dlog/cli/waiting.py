"""Reports on stderr why a reader returns no message: one that waits for bookies must not look like an idle log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING

from ledger.command_line import say

if TYPE_CHECKING:
    from dlog.blocking.reader import Reader

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
            say("dlog", f"waiting: {outage}")
        elif before >= _LOOKS and not looks:
            say("dlog", "reading goes on")
