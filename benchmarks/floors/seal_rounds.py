"""What ZooKeeper allows a tail at a rotation: how long a change takes to be seen.

    python -m benchmarks.floors.seal_rounds HOST:PORT --count N --interval SECONDS

One session changes a node of the size of a ledger's metadata. The watch of another one fires, and it reads the node.
These are kazoo's own clients in a process that does nothing else, and answer each other on kazoo's threads.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import threading
import time

from kazoo.client import KazooClient

from benchmarks.histogram import Summary
from ledger.metadata.uri import parse_uri
from ledger.metadata.zookeeper.address import parse_address
from tests.helpers.golden.sets import connected
from tests.helpers.repository import ROOT

_LEDGER = b"l" * 300
_PATIENCE_S = 30.0


async def measure_seal_rounds(uri: str, *, count: int, interval_s: float) -> Summary:
    """In seconds, next to whatever the caller runs in the meantime. `uri` is the address of the metadata."""
    [server, *_] = parse_address(parse_uri(uri)).servers
    arguments = (server, "--count", str(count), "--interval", str(interval_s))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "benchmarks.floors.seal_rounds",
        *arguments,
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0, "it has printed why"
    return Summary.of(json.loads(printed))


class _Rounds:
    def __init__(self, changing: KazooClient, watching: KazooClient) -> None:
        self._changing = changing
        self._watching = watching
        self._ledger = changing.create("/floor-", _LEDGER, ephemeral=True, sequence=True)
        self._ended_at = 0.0
        self._ended = threading.Event()

    def measure(self) -> float:
        self._ended.clear()
        self._watching.get(self._ledger, watch=self._on_changed)
        began = time.monotonic()
        self._changing.set_async(self._ledger, _LEDGER)
        assert self._ended.wait(_PATIENCE_S), "ZooKeeper did not answer"
        return self._ended_at - began

    def _on_changed(self, _event: object) -> None:
        self._watching.get_async(self._ledger).rawlink(self._on_ledger)

    def _on_ledger(self, _result: object) -> None:
        self._ended_at = time.monotonic()
        self._ended.set()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("server")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--interval", type=float, required=True)
    arguments = parser.parse_args()
    with connected(arguments.server) as changing, connected(arguments.server) as watching:
        rounds = _Rounds(changing, watching)
        took: list[float] = []
        for _ in range(arguments.count):
            time.sleep(arguments.interval)  # at the pace of the rotations that this is compared with
            took.append(rounds.measure())
    print(json.dumps(took))


if __name__ == "__main__":
    main()
