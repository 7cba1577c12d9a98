"""Faults of the links between clients and bookies, each by itself or all of one end."""

from __future__ import annotations

from collections.abc import Callable

from dlog.testing.relay import Direction, Relay
from tests.helpers.nemesis.chaos import Action, Chaos

_MANY = 0.3
"""The share of faults that concern all clients of a bookie, or all bookies of a client."""


class NetworkFaults:
    def __init__(self, chaos: Chaos, relays: list[Relay], clients: Callable[[], list[str]]) -> None:
        """`clients`: the source addresses of those that run now."""
        self._chaos = chaos
        self._relays = relays
        self._clients = clients

    def actions(self) -> list[tuple[int, Action]]:
        return [
            (2, self._cut),
            (2, self._stall),
            (1, self._stall_requests),
            (1, self._stall_responses),
            (2, self._reset),
            (1, self._delay),
            (1, self._stall_and_reset),
        ]

    def heal(self) -> None:
        for relay in self._relays:
            relay.heal()

    async def _cut(self) -> None:
        self._hurt("cut link", Relay.cut)

    async def _stall(self) -> None:
        """What was sent arrives in one burst when it is over."""
        self._hurt("stall link", Relay.stall)

    async def _stall_requests(self) -> None:
        only = frozenset({Direction.REQUESTS})
        self._hurt("stall requests", lambda relay, client: relay.stall(client, only))

    async def _stall_responses(self) -> None:
        """The bookies store what their clients do not get to know."""
        only = frozenset({Direction.RESPONSES})
        self._hurt("stall responses", lambda relay, client: relay.stall(client, only))

    async def _delay(self) -> None:
        delay_s = self._chaos.random.uniform(0.005, 0.3)
        self._hurt("delay link", lambda relay, client: relay.delay(delay_s, client))

    async def _reset(self) -> None:
        self._hurt("reset link", Relay.reset, ends=False)

    async def _stall_and_reset(self) -> None:
        """What waited is lost."""
        self._hurt("stall link and reset", Relay.stall, at_the_end=Relay.reset)

    def _hurt(
        self,
        kind: str,
        fault: Callable[[Relay, str | None], object],
        *,
        ends: bool = True,
        at_the_end: Callable[[Relay, str | None], object] = lambda relay, client: None,
    ) -> None:
        """One link of one client to one bookie, or all links of one of the two."""
        random, clients = self._chaos.random, self._clients()
        client: str | None = random.choice(clients) if clients else None
        relays = [random.choice(self._relays)]
        if random.random() < _MANY:
            if random.random() < 0.5:
                client = None
            else:
                relays = self._relays
        numbers = [self._relays.index(relay) for relay in relays]
        self._chaos.fault(kind, f"{client or 'all clients'} - bookies {numbers}")
        for relay in relays:
            fault(relay, client)

        async def heal() -> None:
            self._chaos.note(f"links of {client or 'all clients'} to bookies {numbers} work again")
            for relay in relays:
                at_the_end(relay, client)
                relay.heal(client) if client else relay.heal()

        if ends:
            self._chaos.later(random.uniform(0.1, 4.0), heal)
