"""The least a storage server can do: take frames, sync them, keep a second copy, answer 28 bytes an entry.

    python -m benchmarks.floors.bare_server --data DIR --frame-bytes N [--parse | --lone]

It parses nothing: all frames have one length, so it counts bytes. What it leaves out (frames of any length,
fences, keys, an index, reads, restart) is what a bookie's time above this floor buys.

With `--parse` it does what no bookie can leave out: it reads every frame's length and ids, keeps a slice of
each entry until its copy is written, and answers with the ids.

With `--lone` it syncs each frame on the event loop, where no thread has to be woken: the least time for an append
that comes alone, and no throughput.

Invariant: bytes are answered after the fdatasync of the group that holds them.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import threading
from collections import deque
from pathlib import Path
from struct import Struct
from typing import Protocol, cast

import uvloop

from ledger.wire.constants import ADD_HEADER, ADD_REQUEST_START, ADD_RESPONSE

ANSWER_BYTES = ADD_RESPONSE.size
_ADD_REQUEST_IDS = Struct(">II20sqq")
"""length, header, master key, ledger id, entry id: the first 44 bytes of an add."""
_PREALLOCATED_BYTES = 64 * 1024 * 1024
_GROUP_BYTES_MAX = 8 * 1024 * 1024


class BareFiles:
    """What is written and synced, and its second copy."""

    def __init__(self, directory: Path) -> None:
        self._journal = _create(directory / "journal")
        self._copy = _create(directory / "copy")
        self._end = 0
        self._allocated = 0

    def write_and_sync(self, joined: bytes) -> None:
        if self._end + len(joined) > self._allocated:
            os.posix_fallocate(self._journal, self._allocated, _PREALLOCATED_BYTES)
            self._allocated += _PREALLOCATED_BYTES
        os.write(self._journal, joined)
        os.fdatasync(self._journal)
        self._end += len(joined)

    def write_again(self, joined: bytes) -> None:
        os.write(self._copy, joined)


class Journal(Protocol):
    def append(self, connection: BareConnection, data: bytes) -> None:
        """Make the data durable, and then tell the connection."""


class LoneJournal:
    """Writes and syncs what arrives before anything else happens."""

    def __init__(self, files: BareFiles) -> None:
        self._files = files

    def append(self, connection: BareConnection, data: bytes) -> None:
        self._files.write_and_sync(data)
        connection.on_durable(len(data))
        self._files.write_again(data)


class BareJournal:
    """One thread that joins what has arrived, writes and syncs it, reports, and writes it again unsynced."""

    def __init__(self, files: BareFiles, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._files = files
        self._waiting: list[tuple[BareConnection, bytes]] = []
        self._arrived = threading.Condition()
        threading.Thread(target=self._run, daemon=True).start()

    def append(self, connection: BareConnection, data: bytes) -> None:
        with self._arrived:
            self._waiting.append((connection, data))
            self._arrived.notify()

    def _run(self) -> None:
        while True:
            group = self._take_group()
            joined = b"".join([data for _, data in group])
            self._files.write_and_sync(joined)
            self._loop.call_soon_threadsafe(_report, group)
            self._files.write_again(joined)

    def _take_group(self) -> list[tuple[BareConnection, bytes]]:
        with self._arrived:
            while not self._waiting:
                self._arrived.wait()
            taken, held = 0, 0
            while taken < len(self._waiting) and held < _GROUP_BYTES_MAX:
                held += len(self._waiting[taken][1])
                taken += 1
            group, self._waiting = self._waiting[:taken], self._waiting[taken:]
            return group


class BareConnection(asyncio.Protocol):
    """Hands received bytes to the journal and answers the frames that are complete and durable."""

    def __init__(self, journal: Journal, frame_bytes: int) -> None:
        self._journal = journal
        self._frame_bytes = frame_bytes
        self._durable_bytes = 0
        self._answered = 0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the interface of asyncio.Transport and not its type.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._journal.append(self, data)

    def on_durable(self, size: int) -> None:
        self._durable_bytes += size
        complete = self._durable_bytes // self._frame_bytes
        if complete > self._answered and self._transport is not None:
            self._transport.write(bytes(ANSWER_BYTES * (complete - self._answered)))
            self._answered = complete

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None


class ParsingConnection(BareConnection):
    """The same, looking at every frame: nothing is assumed about lengths, and answers carry ids."""

    def __init__(self, journal: Journal, frame_bytes: int) -> None:
        super().__init__(journal, frame_bytes)
        self._rest = b""
        self._entries: deque[tuple[int, int, memoryview]] = deque()
        self._unanswered: deque[tuple[int, int]] = deque()
        """Per piece handed to the journal: its bytes, and how many frames end in it."""

    def data_received(self, data: bytes) -> None:
        whole = self._rest + data if self._rest else data
        view, start, end, count = memoryview(whole), 0, len(whole), 0
        keep, unpack = self._entries.append, _ADD_REQUEST_IDS.unpack_from
        while end - start >= _ADD_REQUEST_IDS.size:
            size, _, _, ledger_id, entry_id = unpack(whole, start)
            stop = start + 4 + size
            if stop > end:
                break
            keep((ledger_id, entry_id, view[start + ADD_REQUEST_START.size : stop]))
            start = stop
            count += 1
        self._rest = whole[start:]
        self._unanswered.append((len(data), count))
        self._journal.append(self, data)

    def on_durable(self, size: int) -> None:
        piece, count = self._unanswered.popleft()
        assert piece == size, "the journal answers the pieces it was given, in order"
        take, pack = self._entries.popleft, ADD_RESPONSE.pack
        answers = [pack(ANSWER_BYTES - 4, ADD_HEADER, 0, *take()[:2]) for _ in range(count)]
        if answers and self._transport is not None:
            self._transport.write(b"".join(answers))


def _report(group: list[tuple[BareConnection, bytes]]) -> None:
    for connection, data in group:
        connection.on_durable(len(data))


def _create(path: Path) -> int:
    return os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)


async def serve(directory: Path, frame_bytes: int, *, parse: bool, lone: bool) -> None:
    """Serve on a free loopback port, and say so, until the process is told to end."""
    loop = asyncio.get_running_loop()
    files = BareFiles(directory)
    journal = LoneJournal(files) if lone else BareJournal(files, loop)
    connection = ParsingConnection if parse else BareConnection
    server = await loop.create_server(lambda: connection(journal, frame_bytes), "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    print(f"bare server {host}:{port} is ready", flush=True)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--frame-bytes", type=int, required=True)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--parse", action="store_true")
    how.add_argument("--lone", action="store_true")
    options = parser.parse_args()
    options.data.mkdir(parents=True, exist_ok=True)
    uvloop.run(serve(options.data, options.frame_bytes, parse=options.parse, lone=options.lone))


if __name__ == "__main__":
    main()
