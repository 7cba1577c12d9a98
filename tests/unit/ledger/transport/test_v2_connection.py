"""A connection that ends, as its users see it."""

from __future__ import annotations

from ledger.errors import BookieUnavailableError
from ledger.model import BookieId
from ledger.transport.v2_connection import V2Connection
from ledger.wire.status import Status


class Sink:
    unacknowledged_bytes = 0

    def __init__(self) -> None:
        self.lost: list[Exception] = []

    def on_adds_acked(self, first: int, last: int) -> None: ...

    def on_scattered_adds_acked(self, entry_ids: list[int]) -> None: ...

    def on_add_refused(self, entry_id: int, status: Status) -> None: ...

    def on_connection_lost(self, error: Exception) -> None:
        self.lost.append(error)


async def test_attaching_to_an_ended_connection_fails() -> None:
    """It ended between the connect and the attach; otherwise its member would only be missed at a timeout."""
    connection = V2Connection(BookieId("b"), 1000, 1000)
    before, after = Sink(), Sink()
    connection.attach(1, before)
    connection.give_up("gone")
    connection.attach(1, after)
    assert len(before.lost) == len(after.lost) == 1
    assert isinstance(after.lost[0], BookieUnavailableError)
