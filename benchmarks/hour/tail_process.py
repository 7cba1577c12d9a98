"""Tails all logs as a process of its own, and checks every message.

    python -m benchmarks.hour.tail_process URI PROGRESS LOGS

A line of JSON in the file PROGRESS each second: what came of each log so far, and how its reader ended, if it has.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

import uvloop

from benchmarks.hour.load import log_name
from benchmarks.hour.messages import ReadCheck
from dlog.client import LogClient, connect
from ledger.errors import LogStoreError


class Tails:
    def __init__(self, logs: int) -> None:
        self.checks = [ReadCheck(number) for number in range(logs)]
        self.ends: dict[int, str] = {}

    async def follow(self, client: LogClient, number: int) -> None:
        try:
            async with client.reader(log_name(number)) as reader:
                async for message in reader:
                    self.checks[number].take(bytes(message.payload or b""))
        except LogStoreError as error:
            self.ends[number] = f"{type(error).__name__}: {error}"

    async def report(self, path: Path) -> None:
        with path.open("a", encoding="utf-8") as file:  # a short line a second
            while True:
                self._write(file)
                await asyncio.sleep(1)

    def _write(self, file: TextIO) -> None:
        content = {
            "at": time.monotonic(),
            "delivered": sum(check.count for check in self.checks),
            "next": [check.next for check in self.checks],
            "ends": self.ends,
            "faulty": [asdict(check) for check in self.checks if check.problems or check.missing],
        }
        file.write(json.dumps(content) + "\n")
        file.flush()


async def main(uri: str, progress: str, logs: str) -> None:
    tails = Tails(int(logs))
    async with connect(uri) as client, asyncio.TaskGroup() as group:
        for number in range(int(logs)):
            group.create_task(tails.follow(client, number))
        print("127.0.0.1:0 is ready", flush=True)
        group.create_task(tails.report(Path(progress)))


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(*sys.argv[1:]))
