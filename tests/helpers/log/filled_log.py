"""A log of sealed ledgers with numbered messages."""

from __future__ import annotations

from dlog.client import LogClient


async def append_ledgers(client: LogClient, log: str, ledgers: int, entries: int, batch: int) -> None:
    """A log of so many ledgers, each of so many entries, each of `batch` numbered messages."""
    number = 0
    async with client.open_writer(log, create=True) as writer:
        for ledger in range(ledgers):
            if ledger:
                await writer.rotate()
            for _ in range(entries):
                numbers = range(number, number + batch)
                await writer.append_many(
                    [b"%d" % n for n in numbers], keys=[b"k%d" % (n % 7) for n in numbers]
                )
                number += batch
