"""Reports peers that sent what is no request, and whose connections were closed for it."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field

from ledger.errors import ProtocolError

logger = logging.getLogger(__name__)

REPORT_S = 60.0
"""The first connection is logged immediately, those after it together, and no more often."""
ADDRESSES_MAX = 1000
"""Addresses that are counted between two reports; with IPv6 a peer may have any number of them."""


@dataclass(slots=True)
class BadPeers:
    _more: Counter[str] = field(default_factory=Counter)
    _uncounted: int = 0
    """Connections from further addresses."""
    _last: ProtocolError | None = None
    _quiet: bool = False
    """Whether a report was made less than `REPORT_S` ago."""
    _due: float = 0.0

    def note(self, address: str, error: ProtocolError) -> None:
        """The connection of this peer is being closed for the error."""
        if not self._quiet:
            self._quiet = True
            logger.warning("closed the connection of %s, which sent no valid request: %s", address, error)
        elif address in self._more or len(self._more) < ADDRESSES_MAX:
            self._more[address] += 1
            self._last = error
        else:
            self._uncounted += 1

    def report_due(self, now: float) -> None:
        """Log what was closed since the last report, once that was long enough ago. `now`: seconds, monotonic.

        To be called regularly: the first call after a report begins the time to the next one.
        """
        if not self._quiet:
            self._due = 0.0
        elif not self._due:
            self._due = now + REPORT_S
        elif now >= self._due:
            self._quiet, self._due = bool(self._more), now + REPORT_S
            self.report()

    def report(self) -> None:
        """The same, whenever the last report was."""
        if not self._more:
            return
        address, count = self._more.most_common(1)[0]
        total = self._more.total() + self._uncounted
        logger.warning(
            "closed %d more %s that sent no valid request, %d of them from %s; the last one: %s",
            total,
            "connection" if total == 1 else "connections",
            count,
            address,
            self._last,
        )
        self._more.clear()
        self._uncounted, self._last = 0, None
