"""Kills and starts the driver, and compares the two logs.

Invariant: whatever the driver was doing when it was killed, the target has each message of the source at most once,
and once all is copied exactly once; and in each ledger, which one task has written, in the order of the source.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from dlog.client import LogClient, connect
from dlog.model import Message
from tests.helpers.log.producer import read_all
from tests.helpers.spark_restarts import driver

T = TypeVar("T")

BATCH_ROWS = 200
REST_ROWS = 10_000
"""Of a micro-batch of what is left in the end, which may be most."""
FED_ROWS = 1_000
"""Before each start: more than a driver copies until it is killed."""
KILLED_WITHIN_S = 1.5
"""After the driver has begun its first micro-batch: some of them, or one on a busy machine."""
START_S = 120.0


@dataclass
class Result:
    restarts: int = 0
    rows: int = 0
    batches: int = 0
    states: Counter[str] = field(default_factory=Counter)
    """Where the driver was when it was killed."""
    violations: list[str] = field(default_factory=list)
    is_complete: bool = True
    """Whether the rest was copied in the end; else a message that is missing is none that was lost."""
    strays: int = 0
    """Ledgers that killed tasks and drivers have left, before the sweep."""


class Restarts:
    """One query on the cluster at `uri`, with its files in `directory`."""

    def __init__(self, uri: str, directory: Path, seed: int) -> None:
        self._uri = uri
        self._directory = directory
        self._rng = random.Random(seed)
        self._rows = 0
        self._is_over = False
        self.result = Result()

    def stop(self) -> None:
        """Begin no more restarts: the result is that of those so far."""
        self._is_over = True

    def run(self, restarts: int, until_s: float, report: Callable[[str], None]) -> Result:
        """This number of restarts, or fewer if the time (monotonic) comes first; then copy the rest and check."""
        result = self.result
        self._on_log(lambda client: client.create("source"))
        self._on_log(lambda client: client.create("target"))
        while result.restarts < restarts and time.monotonic() < until_s and not self._is_over:
            self._feed()
            state = self._start_and_kill()
            result.restarts += 1
            result.states[state] += 1
            report(f"restart {result.restarts}: killed {state}; batch {self._last('offsets')} of Spark")
        result.is_complete = self._copy_the_rest()
        self._check()
        return result

    def _feed(self) -> None:
        async def append(client: LogClient) -> None:
            async with client.open_writer("source") as writer:
                for first in range(0, FED_ROWS, 100):
                    numbers = range(self._rows + first, self._rows + first + 100)
                    await writer.append_many([b"%d" % number for number in numbers])

        self._on_log(append)
        self._rows += FED_ROWS

    # ---- the driver

    def _start_and_kill(self) -> str:
        before = (self._last("offsets"), self._last("commits"))
        process = self._start(BATCH_ROWS)
        try:
            give_up_at = time.monotonic() + START_S
            # A batch that was planned before begins without a new file of offsets.
            while (self._last("offsets"), self._last("commits")) == before:
                assert process.poll() is None, self._errors()
                assert time.monotonic() < give_up_at, "the query does not begin"
                time.sleep(0.005)
            time.sleep(self._rng.uniform(0, KILLED_WITHIN_S))
        finally:
            self._kill(process)
        return self._state()

    def _start(self, rows: int, *arguments: str) -> subprocess.Popen[bytes]:
        with (self._directory / "driver.log").open("wb") as errors:
            return subprocess.Popen(
                [
                    sys.executable, "-m", driver.__name__, self._uri, str(self._directory), str(rows),
                    *arguments,
                ],
                stdout=errors, stderr=errors, start_new_session=True, stdin=subprocess.DEVNULL,
            )  # fmt: skip

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        """The driver and its JVM. Spark's Python processes end without them, some after the next driver's start."""
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _state(self) -> str:
        """From what Spark has written down and what the log has."""
        planned, done = self._last("offsets"), self._last("commits")
        if planned == done:
            return "between batches"
        marks = self._on_log(lambda client: client.describe("target")).record.sinks
        published = marks[0].batch if marks else -1
        return "after the sink's commit" if published == planned else "before the sink's commit"

    def _last(self, of: str) -> int:
        """The number of the newest batch of which Spark has written down this; -1 if of none."""
        try:
            names = [path.name for path in (self._directory / "checkpoint" / of).iterdir()]
        except FileNotFoundError:
            return -1
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def _copy_the_rest(self) -> bool:
        """Whether that was done in time."""
        process = self._start(REST_ROWS, "once")
        try:
            process.wait(timeout=START_S * 3)
        except subprocess.TimeoutExpired:
            return False
        finally:
            self._kill(process)
        assert process.returncode == 0, self._errors()
        return True

    def _errors(self) -> str:
        return (self._directory / "driver.log").read_text(errors="replace")[-4000:]

    # ---- the logs

    def _check(self) -> None:
        result = self.result
        messages = self._on_log(lambda client: read_all(client, "target"))
        result.rows, result.batches = len(messages), self._last("commits") + 1
        result.violations += violations(messages, self._rows, is_complete=result.is_complete)

        async def strays(client: LogClient) -> int:
            return len(await client.admin.sweep(age_s=-1, staging_age_s=-1))

        result.strays = self._on_log(strays)
        after = self._on_log(lambda client: read_all(client, "target"))
        if [message.id for message in after] != [message.id for message in messages]:
            result.violations.append("the sweep has changed the target")

    def _on_log(self, work: Callable[[LogClient], Awaitable[T]]) -> T:
        async def connected() -> T:
            async with await connect(self._uri) as client:
                return await work(client)

        return asyncio.run(connected())


def violations(messages: list[Message], rows: int, *, is_complete: bool = True) -> list[str]:
    """What is wrong with the copy of the numbers 0 to `rows`: lost, doubled, strange, or out of order in a task.

    A copy that is not complete lacks numbers only after those that it has: micro-batches are copied in their order.
    """
    if not is_complete:
        rows = max((int(message.payload or b"-1") for message in messages), default=-1) + 1
    found = [int(message.payload or b"-1") for message in messages]
    counts = Counter(found)
    wrong = [f"{number} is there {count} times" for number, count in counts.items() if count > 1]
    wrong += [f"{number} is missing" for number in range(rows) if number not in counts]
    wrong += [f"{number} was never written" for number in counts if not 0 <= number < rows]
    for (one, earlier), (other, later) in pairwise(zip(messages, found, strict=True)):
        if one.id.ledger_id == other.id.ledger_id and later <= earlier:
            wrong.append(f"{later} is after {earlier} in ledger {one.id.ledger_id}")
    return wrong
