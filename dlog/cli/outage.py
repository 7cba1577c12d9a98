"""A metadata store that cannot be read for a while: what was read before stays in view, with a line that says so."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from dlog.cli.live.view import View
from dlog.cli.output import to_the_second
from ledger.environment import Environment
from ledger.errors import MetadataUnavailableError, UnavailableError

T = TypeVar("T")


class Outage:
    """From the first call that fails until one succeeds."""

    def __init__(self, view: View, environment: Environment) -> None:
        self._view = view
        self._environment = environment
        self._since_us: int | None = None

    async def result_of(self, call: Awaitable[T]) -> T | None:
        """What the call returns; None if it fails because something is unavailable."""
        begun_us = self._environment.wall_us()
        try:
            result = await call
        except UnavailableError as error:
            if self._since_us is None:
                # A call fails only after it was tried for some seconds.
                self._since_us = begun_us
            self._view.notice(f"{_what(error)} since {to_the_second(self._since_us)[11:]}: {error}")
            return None
        if self._since_us is not None:
            self._since_us = None
            self._view.notice(None)
        return result


def _what(error: UnavailableError) -> str:
    return "metadata store unavailable" if isinstance(error, MetadataUnavailableError) else "not current"
