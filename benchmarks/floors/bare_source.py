"""The least a storage server can do for a reader: send bytes that it has in memory, a piece per request.

    python -m benchmarks.floors.bare_source --piece-bytes N

Any byte received is a request; the answer is N bytes. Nothing is looked up, cut, copied or checked.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import cast

import uvloop


class BareSource(asyncio.Protocol):
    def __init__(self, piece: bytes) -> None:
        self._piece = piece
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the interface of asyncio.Transport and not its type.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        for _ in data:
            self._transport.write(self._piece)


async def serve(piece_bytes: int) -> None:
    """Serve on a free loopback port, and say so, until the process is told to end."""
    piece = bytes(piece_bytes)
    server = await asyncio.get_running_loop().create_server(lambda: BareSource(piece), "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    print(f"bare source {host}:{port} is ready", flush=True)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--piece-bytes", type=int, required=True)
    uvloop.run(serve(parser.parse_args().piece_bytes))


if __name__ == "__main__":
    main()
