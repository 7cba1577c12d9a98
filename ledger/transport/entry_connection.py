"""A connection that carries entries, in either protocol: where answers to adds go, and how to read."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable
from typing import Protocol

from ledger.model import BookieId
from ledger.transport.connection import BookieConnection
from ledger.wire.status import Status

ANSWERS_AT_ONCE = 64
"""The answers to adds or explicit LACs of this number of ledgers are handled in one turn of the loop, or an eighth of
those to adds that are there.

What their writers send next leaves as the turn ends, so bookies work on it while the other answers are handled, instead
of waiting for all of them.
"""

ReadAnswer = tuple[Status, memoryview]
"""Status and, if EOK, the entry (of a batch read, the sequence of sized entries)."""


class AddSink(Protocol):
    """Where the answers to one ledger's adds on one connection go."""

    @property
    def unacknowledged_bytes(self) -> int:
        """Bytes of the adds that are not acknowledged to the writer yet."""

    def on_adds_acked(self, first: int, last: int) -> None: ...

    def on_scattered_adds_acked(self, entry_ids: list[int]) -> None: ...

    def on_add_refused(self, entry_id: int, status: Status) -> None: ...

    def on_connection_lost(self, error: Exception) -> None: ...


class EntryConnection(BookieConnection):
    """Adds are sent as frames, ready-made for the protocol, and answered to a sink per ledger."""

    def __init__(self, bookie_id: BookieId, send_queue_bytes_max: int) -> None:
        super().__init__(bookie_id, send_queue_bytes_max)
        self._sinks: dict[int, AddSink] = {}
        self._retired: str | None = None
        """Why it ends as soon as no answers to adds are awaited."""

    def attach(self, ledger_id: int, sink: AddSink) -> None:
        """Deliver the answers to this ledger's adds to `sink` from now on."""
        if self.lost is not None:
            sink.on_connection_lost(self.lost)  # it ended before the caller came to attach
            return
        self._sinks[ledger_id] = sink

    def detach(self, ledger_id: int, sink: AddSink) -> None:
        if self._sinks.get(ledger_id) is sink:
            del self._sinks[ledger_id]
            if self._retired is not None and not self._sinks and self.lost is None:
                self.give_up(self._retired)

    def retire(self, reason: str) -> None:
        """End the connection now, or as soon as no answers to adds are awaited."""
        self._retired = reason
        if not self._sinks:
            self.give_up(reason)

    @abstractmethod
    def read(
        self,
        ledger_id: int,
        entry_id: int,
        timeout_s: float,
        *,
        fence_key: bytes | None = None,
        priority: bool = False,
    ) -> Awaitable[ReadAnswer]:
        """Ask for an entry, -1 for the last one held; with a key, fence the ledger first. Sent immediately.

        Several reads of the same entry may be in flight.
        """

    def _unacknowledged_bytes(self) -> int:
        return sum(sink.unacknowledged_bytes for sink in self._sinks.values())

    def _report_loss(self, error: Exception) -> None:
        for sink in list(self._sinks.values()):
            sink.on_connection_lost(error)
