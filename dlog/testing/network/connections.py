"""An open connection between two nodes."""

from __future__ import annotations

from collections.abc import Callable

from dlog.testing.network.transports import SimulatedTransport


class Connection:
    """Two ends and what lies between them."""

    def __init__(
        self, number: int, client: SimulatedTransport, server: SimulatedTransport, forget: Callable[[], None]
    ) -> None:
        self.number = number
        self.client = client
        self.server = server
        self._forget = forget

    def __repr__(self) -> str:
        return f"connection {self.number} of {self.client.node.label} to {self.server.node.label}"

    def joins(self, first: str, second: str) -> bool:
        """Whether these two nodes, by name, are its ends."""
        ends = self.client.node.name, self.server.node.name
        return ends in ((first, second), (second, first))

    @property
    def is_open(self) -> bool:
        """Whether any end still has its socket."""
        return not (self.client.socket_closed and self.server.socket_closed)

    def end_closed(self, end: SimulatedTransport) -> None:
        """The socket of this end is closed; the last one closes the door."""
        if not self.is_open:
            self._forget()
