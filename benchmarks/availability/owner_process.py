"""The log's writer as a process of its own: opens the log and appends at a fixed rate until it is deposed or killed.

    python -m benchmarks.availability.owner_process URI LOG ACKS

Each acknowledged append is one line in the file ACKS, written before the next one is sent: number, when it was due,
when it was acknowledged.
"""

from __future__ import annotations

import asyncio
import os
import sys

import uvloop

from benchmarks.load.paced_appends import append_paced
from dlog.client import connect

PER_SECOND = 500
OWNER = b"first "


async def main(uri: str, log: str, path: str) -> None:
    acks = os.open(path, os.O_WRONLY | os.O_APPEND)

    def on_acked(number: int, due: float, acked: float) -> None:
        os.write(acks, f"{number} {due!r} {acked!r}\n".encode())

    async with connect(uri) as client:
        writer = await client.open_writer(log, create=True)
        print("127.0.0.1:0 is ready", flush=True)
        await append_paced(writer, per_second=PER_SECOND, seconds=None, prefix=OWNER, on_acked=on_acked)
        writer.abort()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(*sys.argv[1:]))
