"""How often a compare-and-set loop starts again: with pauses that grow and differ between processes, and a limit."""

from __future__ import annotations

import asyncio

from ledger.environment import Environment
from ledger.errors import ContendedError, LogStoreError, OutcomeUnknownError

ROUNDS_MAX = 20
"""About 4 s of pauses: a value that others change that often cannot be changed now."""
_PAUSE_FIRST_S = 0.005
_PAUSE_MAX_S = 0.5


class Rounds:
    """The rounds of one loop. `again` is awaited before each but the first."""

    def __init__(self, environment: Environment, what: str) -> None:
        """`what`: what the loop changes, as the subject of a sentence."""
        self._rng = environment.rng
        self._what = what
        self._begun = 1
        self._bound_s = _PAUSE_FIRST_S

    async def again(self, cause: LogStoreError | None = None) -> None:
        """Pause before the next round.

        `cause`: why the round failed.

        Raises:
            ContendedError: it was the last round, and nothing was changed.
            OutcomeUnknownError: it was the last round, and `cause` leaves open whether a change was made: `cause`
                itself.
        """
        if self._begun >= ROUNDS_MAX:
            if isinstance(cause, OutcomeUnknownError):
                raise cause
            raise ContendedError(
                f"{self._what} was changed by others in each of {self._begun} rounds; try again later",
                rounds=self._begun,
            ) from cause
        self._begun += 1
        await asyncio.sleep(self._rng.uniform(self._bound_s / 4, self._bound_s))
        self._bound_s = min(2 * self._bound_s, _PAUSE_MAX_S)
