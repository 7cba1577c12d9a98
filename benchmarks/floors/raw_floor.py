"""What the machine allows: how fast three bare servers take, sync and answer the bytes of v2 adds.

    python -m benchmarks.floors.raw_floor [--entry-bytes 100 1024] [--window 2000] [--seconds 3] [--repeats 3]

One client sends the same frames to three `bare_server` processes, keeps a window of entries in flight, and
counts an entry as confirmed once two of the three have answered it. Our appends are measured against this.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import uvloop

from benchmarks.floors.bare_server import ANSWER_BYTES
from benchmarks.histogram import median
from benchmarks.machine import measure_fdatasync, settle_disk
from benchmarks.report import Report, Row
from benchmarks.usage import Stopwatch, Throughput
from ledger.model import DigestType
from ledger.wire import v2
from ledger.wire.digest import make_digester, master_key
from ledger.wire.messages import AddRequest
from tests.helpers.processes.python import Child, start_python

SERVERS = 3
ACK_QUORUM = 2
_LAG_WINDOWS_MAX = 20
"""How many windows the slowest server may lie behind before the client waits; bounds its send buffer."""
_WARM_UP_S = 0.5


async def measure_floor(
    directory: Path, *, entry_bytes: int, window: int, seconds: float, parsed: bool = False
) -> Throughput:
    """Run the three servers on fresh files below `directory` and one client against them.

    `parsed`: the servers look at every frame, as any bookie must.
    """
    settle_disk()
    frame = add_frame(entry_bytes)
    home = Path(tempfile.mkdtemp(prefix="raw-floor-", dir=directory))
    servers: list[Child] = []
    try:
        for number in range(SERVERS):
            servers.append(
                await start_server(home / f"server-{number}", len(frame), "--parse" if parsed else None)
            )
        return await _load(servers, frame, window, seconds)
    finally:
        await asyncio.gather(*(server.stop() for server in servers))
        shutil.rmtree(home)


def add_frame(entry_bytes: int) -> bytes:
    """The frame of one v2 add with a payload of `entry_bytes`."""
    payload = bytes(entry_bytes)
    head = make_digester(DigestType.CRC32C, b"").header_and_digest(1, 0, -1, entry_bytes, (payload,))
    return v2.encode_request(AddRequest(master_key=master_key(b""), entry=head + payload))


async def start_server(data: Path, frame_bytes: int, how: str | None = None) -> Child:
    arguments = [
        "-m",
        "benchmarks.floors.bare_server",
        "--data",
        str(data),
        "--frame-bytes",
        str(frame_bytes),
    ]
    return await start_python(arguments if how is None else [*arguments, how])


async def _load(servers: Sequence[Child], frame: bytes, window: int, seconds: float) -> Throughput:
    """Entries confirmed by the ack quorum, after a warm-up."""
    loop = asyncio.get_running_loop()
    client = FloorClient(frame, window)
    for server in servers:
        await loop.create_connection(client.new_connection, server.host, server.port)
    client.send_more()
    await asyncio.sleep(_WARM_UP_S)
    confirmed, stopwatch = client.confirmed, Stopwatch([server.pid for server in servers])
    await asyncio.sleep(seconds)
    found = stopwatch.stop(client.confirmed - confirmed)
    client.close()
    return found


class FloorClient:
    """Sends the same frames to every server, a window of entries ahead of what two of three have answered."""

    def __init__(self, frame: bytes, window: int) -> None:
        self._window = window
        self._frame_bytes = len(frame)
        self._frames = memoryview(frame * window)
        self._connections: list[FloorConnection] = []
        self._sent = 0
        self._closed = False
        self.confirmed = 0

    def new_connection(self) -> FloorConnection:
        self._connections.append(FloorConnection(self))
        return self._connections[-1]

    def on_answers(self) -> None:
        """Servers answer in order, so entry n is confirmed once the second best server has answered n."""
        answered = sorted(connection.answered for connection in self._connections)
        self.confirmed = answered[-ACK_QUORUM]
        self.send_more()

    def send_more(self) -> None:
        slowest = min(connection.answered for connection in self._connections)
        allowed = min(self.confirmed + self._window, slowest + self._window * _LAG_WINDOWS_MAX)
        count = allowed - self._sent
        if count > 0 and not self._closed:
            frames = self._frames[: count * self._frame_bytes]
            for connection in self._connections:
                connection.write(frames)
            self._sent += count

    def close(self) -> None:
        self._closed = True
        for connection in self._connections:
            connection.close()


class FloorConnection(asyncio.Protocol):
    """Counts the answers of one server."""

    def __init__(self, client: FloorClient) -> None:
        self._client = client
        self._answer_bytes = 0
        self._transport: asyncio.Transport | None = None

    @property
    def answered(self) -> int:
        return self._answer_bytes // ANSWER_BYTES

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the interface of asyncio.Transport and not its type.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._answer_bytes += len(data)
        self._client.on_answers()

    def write(self, frames: memoryview) -> None:
        assert self._transport is not None
        self._transport.write(frames)

    def close(self) -> None:
        assert self._transport is not None
        self._transport.abort()


async def run(options: argparse.Namespace) -> Report:
    """Measure every entry size, the repeats interleaved so that a slow minute hits all sizes alike."""
    report = Report("raw_floor", "How fast do three bare servers take, sync and answer entries?")
    sync = measure_fdatasync(options.directory)
    report.add(
        Row(
            contender="disk",
            case="fdatasync, 1.1 KB",
            unit="ms",
            value=sync.p50 * 1e3,
            runs=(sync.p50 * 1e3,),
        )
    )
    rates: dict[int, list[float]] = {entry_bytes: [] for entry_bytes in options.entry_bytes}
    for _ in range(options.repeats):
        for entry_bytes in options.entry_bytes:
            floor = await measure_floor(
                options.directory, entry_bytes=entry_bytes, window=options.window, seconds=options.seconds
            )
            rates[entry_bytes].append(floor.entries_per_s)
    for entry_bytes, runs in rates.items():
        case = f"{entry_bytes} B, window {options.window}"
        report.add(
            Row(contender="raw floor", case=case, unit="entries/s", value=median(runs), runs=tuple(runs))
        )
    return report


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--entry-bytes", type=int, nargs="+", default=[100, 1024])
    parser.add_argument("--window", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()))
    options = parser.parse_args()
    uvloop.run(run(options)).finish()


if __name__ == "__main__":
    main()
