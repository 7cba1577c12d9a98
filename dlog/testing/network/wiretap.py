"""Listens to one connection: who sends what to whom, and for the timeline what arrives late."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from dlog.testing.kernel.trace import Trace
from dlog.testing.network.frames import Dialect, Said, in_runs
from ledger.errors import ProtocolError
from ledger.wire.entry import Buffer
from ledger.wire.frame import FrameSplitter

LATE_S = 0.05
"""What was longer on its way is shown again when it arrives."""


class Wiretap:
    """Both directions of a connection to a bookie. Sees bytes where programs hand them over and get them."""

    def __init__(self, trace: Trace, now: Callable[[], float], client: str, bookie: str) -> None:
        dialect = Dialect()
        self.requests = Direction(trace, now, client, bookie, dialect.request)
        self.responses = Direction(trace, now, bookie, client, dialect.response)


class Requests:
    """Reports each request that a client sends on one connection to a bookie."""

    def __init__(self, bookie: str, heard: Callable[[str, Said], None]) -> None:
        self._bookie = bookie
        self._heard = heard
        self._read = Dialect().request
        self._sent = FrameSplitter()

    def sent(self, data: bytes) -> None:
        for body in _frames(self._sent, data):
            self._heard(self._bookie, self._read(body))


class Direction:
    """From `source` to `target`."""

    def __init__(
        self,
        trace: Trace,
        now: Callable[[], float],
        source: str,
        target: str,
        read: Callable[[Buffer], Said],
    ) -> None:
        self._trace = trace
        self._now = now
        self._source = source
        self._target = target
        self._read = read
        self._sent = FrameSplitter()
        self._received = FrameSplitter()
        self._under_way: deque[tuple[float, Said]] = deque()

    def sent(self, data: bytes) -> None:
        said = [self._read(body) for body in _frames(self._sent, data)]
        self._under_way.extend((self._now(), each) for each in said)
        for run in in_runs(said):
            self._trace.event(f"-> {self._target}", self._source, str(run))

    def received(self, data: bytes) -> None:
        arrived = [self._under_way.popleft() for _ in _frames(self._received, data) if self._under_way]
        late = [(at, each) for at, each in arrived if self._trace.detailed or self._now() - at > LATE_S]
        for run in in_runs(each for _, each in late):
            self._trace.event(
                f"<- {self._source}", self._target, f"{run}, after {self._now() - late[0][0]:.3g} s"
            )


def _frames(splitter: FrameSplitter, data: bytes) -> list[memoryview]:
    """None more after bytes that are no frames: the connection is about to end."""
    try:
        return splitter.feed(data)
    except ProtocolError:
        return []
