"""What serving a request may ask of the connection it came from."""

from __future__ import annotations

from typing import Protocol

from bookie_server.net.read_queue import Work
from bookie_server.protocol.long_poll import Waiter
from bookie_server.protocol.service import BookieService


class Peer(Protocol):
    """One client connection."""

    @property
    def service(self) -> BookieService: ...

    def may_answer(self, urgent: bool) -> bool:
        """False while so many answers wait to be taken that no read, or no urgent one, should make more."""

    def send(self, *parts: bytes | memoryview) -> None:
        """Hand over one whole frame; dropped silently when the peer is gone."""

    def read_later(self, work: Work, *, urgent: bool) -> None:
        """Run a read that waits for the disk, when its turn comes; urgent ones, of a takeover, before others."""

    @property
    def may_wait(self) -> bool:
        """False while so many of its long polls wait that it gets no more."""

    def watch(self, waiter: Waiter) -> None:
        """Cancel `waiter` when the connection goes."""

    def unwatch(self, waiter: Waiter) -> None: ...

    def adds_accepted(self, byte_count: int) -> None:
        """So many bytes of this peer's adds wait for the disk now."""

    def adds_answered(self, byte_count: int) -> None: ...
