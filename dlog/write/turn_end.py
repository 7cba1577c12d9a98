"""One callback at the end of a turn of the event loop, for all writers of a client that got messages in it.

A callback for each writer costs more than encoding its message, if each of many logs gets one.
"""

from __future__ import annotations

import asyncio
from typing import Protocol


class TurnListener(Protocol):
    def on_turn_end(self) -> None: ...


class TurnEnd:
    """Calls each listener once, in the order in which they asked."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[TurnListener] = []

    def call(self, listener: TurnListener) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._run)
        self._waiting.append(listener)

    def _run(self) -> None:
        waiting, self._waiting = self._waiting, []
        called = 0
        try:
            for listener in waiting:
                called += 1
                listener.on_turn_end()
        finally:
            # One that raises must not keep the others' messages back.
            for listener in waiting[called:]:
                self.call(listener)
