"""The connection of a request, as the functions that serve it see it."""

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
        """False while the peers hold too many responses unread for another read, or another urgent one."""

    def send(self, *parts: bytes | memoryview) -> None:
        """Send one whole frame; dropped silently if the connection is closed."""

    def read_later(self, work: Work, *, urgent: bool) -> None:
        """Queue a read that waits for the disk. Urgent ones, those of a takeover, run before others."""

    @property
    def may_wait(self) -> bool:
        """False while the connection has as many long polls as it may have."""

    def watch(self, waiter: Waiter) -> None:
        """Cancel `waiter` when the connection closes."""

    def unwatch(self, waiter: Waiter) -> None: ...

    def adds_accepted(self, byte_count: int) -> None:
        """Count bytes of this connection's adds that wait for the disk, or of what else waits for it."""

    def adds_answered(self, byte_count: int) -> None: ...
