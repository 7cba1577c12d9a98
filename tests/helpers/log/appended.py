"""A log that a test needs with a few messages in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from dlog.client import LogClient
from dlog.model import MessageId


def appended(log: str, *values: bytes, **options: Any) -> Callable[[LogClient], Awaitable[list[MessageId]]]:
    """Work that appends these, each as an entry, with a writer of its own."""

    async def work(client: LogClient) -> list[MessageId]:
        async with client.open_writer(log, **options) as writer:
            return [await writer.append(value) for value in values]

    return work
