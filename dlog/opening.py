"""What `connect` and `open_writer` return: `await` it, or enter it."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

T = TypeVar("T", bound=AbstractAsyncContextManager[Any])


class Opening(Coroutine[Any, Any, T]):
    """A coroutine that opens something that must be closed.

        async with client.open_writer("orders") as writer: ...    # closed at the end of the block
        writer = await client.open_writer("orders")               # to be closed by the caller

    A cancelled opening has closed what it had opened.
    """

    def __init__(self, opening: Coroutine[Any, Any, T]) -> None:
        self._opening = opening

    def __await__(self) -> Generator[Any, Any, T]:
        return self._opening.__await__()

    async def __aenter__(self) -> T:
        self._opened = await self._opening
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._opened.__aexit__(kind, error, trace)

    if not TYPE_CHECKING:  # which finds the mistake by itself

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(
                f"what is being opened has no {name!r} yet: write `await` before the call, or `async with`"
            )

    # ---- as a coroutine, so that `asyncio.create_task` takes it

    def send(self, value: Any) -> Any:
        return self._opening.send(value)

    def throw(self, *error: Any) -> Any:
        return self._opening.throw(*error)

    def close(self) -> None:
        self._opening.close()
