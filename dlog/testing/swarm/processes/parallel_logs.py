"""One client with several logs, each written and followed at the same time.

Their writers and readers share the client's connections, its list of bookies and its timers. Each log has a history of
its own, which is checked like that of the main log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from random import Random

from dlog.client import LogClient
from dlog.testing.checks.checks import findings
from dlog.testing.checks.history import content_of
from dlog.testing.checks.recorder import Recorder
from dlog.testing.kernel.trace import Trace
from dlog.testing.swarm.plan import Plan
from dlog.testing.swarm.processes.readers import SwarmReader
from dlog.testing.swarm.processes.writers import SwarmWriter, outcome_of

PARALLEL_ROOT = "/parallel"
_TRY_AGAIN_S = 0.2
_PACE = 4.0
"""How many times slower than the main log each of these is written."""


class ParallelLogs:
    """The histories of the logs, over all incarnations of the process, and the readers of the last one."""

    def __init__(self, plan: Plan, now: Callable[[], float], trace: Trace) -> None:
        names = [f"parallel-{number}" for number in range(plan.parallel_logs)]
        self._strict = not plan.fast
        self.recorders = {name: Recorder(now, log_event=trace.event, log_read=trace.detail) for name in names}
        self.readers: dict[str, SwarmReader] = {}
        self._turns = 0
        self._found: dict[str, list[str]] = {}
        """What is wrong with each log that was read to its end."""

    async def wrong_in_the_end(self, client: LogClient) -> list[str]:
        """After one more append to each log. UnavailableError, and what takeovers and appends raise.

        Another call continues with the log that an error has interrupted.
        """
        for log in self.recorders:
            if log not in self._found:
                self._turns += 1
                self._found[log] = await self._wrong_of(client, log)
        return [wrong for found in self._found.values() for wrong in found]

    async def _wrong_of(self, client: LogClient, log: str) -> list[str]:
        recorder, handle = self.recorders[log], f"parallel-verifier.{self._turns}"
        payload = b"last %d" % self._turns
        recorder.asked_for(handle)
        async with await client.open_writer(log, create=True) as writer:
            recorder.takeover(handle, writer.epoch)
            number = recorder.invoke(handle, payload)
            outcome, last_id = await outcome_of(writer.append(payload))
            recorder.end(handle, number, outcome, last_id)
        history = recorder.history()
        history.strict = self._strict
        async with client.reader(log, until="latest") as reader:
            history.final = [
                (message.id, content_of(message.payload, message.key, message.headers))
                async for message in reader
            ]
        if log in self.readers:
            while not self.readers[log].has_passed(history.final[-1][0]):  # noqa: ASYNC110
                await asyncio.sleep(_TRY_AGAIN_S)
        return [f"{log}: {wrong}" for wrong in findings(history)]


class SwarmParallelLogs:
    """One process."""

    def __init__(
        self,
        plan: Plan,
        client: LogClient,
        logs: ParallelLogs,
        name: str,
        rng: Random,
        stopping: asyncio.Event,
    ) -> None:
        plan = replace(plan, append_every_s=_PACE * plan.append_every_s, cancellers=0)
        self._writers, self._readers = list[SwarmWriter](), list[SwarmReader]()
        self.wrong: list[str] = []
        """What must not happen and did."""
        self.loud: list[str] = []
        """Errors that only a fault beyond the contract excuses."""
        config = plan.reader_config()
        for log, recorder in logs.recorders.items():
            own = Random(rng.getrandbits(64))
            label = f"{name} {log}"  # a part of each payload, so that no two logs have the same
            writer = SwarmWriter(plan, client, log, recorder, label, own, stopping.is_set)
            reader = logs.readers[log] = SwarmReader(client, log, recorder, label, own, config)
            writer.wrong = reader.wrong = self.wrong
            writer.loud = reader.loud = self.loud
            self._writers.append(writer)
            self._readers.append(reader)

    async def run(self) -> None:
        """Readers go on when the writers have ended."""
        async with asyncio.TaskGroup() as group:
            for reader in self._readers:
                group.create_task(reader.follow())
            for writer in self._writers:
                group.create_task(writer.run())
