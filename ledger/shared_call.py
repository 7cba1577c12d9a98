"""One execution of a call for all who make it at about the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from ledger.errors import LogStoreError
from ledger.tasks import start_task

T = TypeVar("T")


class SharedCall(Generic[T]):
    """Those who call in one turn of the loop share an execution. It begins after each of their calls, so whatever is
    promised of the time of a call holds for all of them.

    Cancelling one of them leaves the others their result; cancelling all of them ends it. A LogStoreError is raised
    as a copy in each.
    """

    def __init__(self, call: Callable[[], Awaitable[T]]) -> None:
        self._call = call
        self._next: asyncio.Task[T | LogStoreError] | None = None
        """It has not begun."""
        self._waiting: dict[asyncio.Task[T | LogStoreError], int] = {}
        """Callers of each that runs or is about to."""

    async def __call__(self) -> T:
        if self._next is None:
            self._next = start_task(self._run())
            self._waiting[self._next] = 0
        task = self._next
        self._waiting[task] += 1
        try:
            outcome = await asyncio.shield(task)
        finally:
            self._waiting[task] -= 1
            if not self._waiting[task]:
                self._end(task)
        if isinstance(outcome, LogStoreError):
            raise outcome.copy()
        return outcome

    def _end(self, task: asyncio.Task[T | LogStoreError]) -> None:
        """All its callers have its outcome, or are cancelled."""
        del self._waiting[task]
        if self._next is task:
            self._next = None
        task.cancel()

    def cancel(self) -> None:
        """End what runs; those who still wait are cancelled."""
        self._next = None
        for task in self._waiting:
            task.cancel()

    async def _run(self) -> T | LogStoreError:
        self._next = None
        try:
            return await self._call()
        except LogStoreError as error:
            return error
