"""Follow a log while another task appends to it: the asyncio API, in one process.

    python examples/follow.py DIRECTORY

Starts a cluster in DIRECTORY, so it needs nothing else.
"""

from __future__ import annotations

import asyncio
import sys

import dlog


async def measure(client: dlog.aio.LogClient) -> None:
    """Append a few readings, some of them on their way at the same time."""
    async with client.open_writer("readings", create=True) as writer:
        pending = [await writer.submit(b"%d" % celsius, key=b"kitchen") for celsius in (19, 20, 21)]
        for append in pending:
            print("durable:", await append)


async def watch(client: dlog.aio.LogClient, count: int) -> None:
    """Print readings as they come; what was there before is read first."""
    async with client.tail("readings", start="earliest") as reader:
        async for message in reader:
            print(f"seen: {message.id} {message.key!r} {message.payload!r}")
            count -= 1
            if not count:
                return


async def main(directory: str) -> None:
    async with dlog.aio.standalone(directory) as cluster, dlog.aio.connect(cluster.uri) as client:
        await client.create("readings")
        await asyncio.gather(measure(client), watch(client, 3))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python examples/follow.py DIRECTORY")
    asyncio.run(main(sys.argv[1]))
