"""The demo's steps with Spark: a stream that follows two writers, a kill of Spark, the copy's check, and a query."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dlog.client import LogClient
from dlog.demo.child import Child
from dlog.demo.flights import Flight, delay_field, mean_delay_by_carrier
from dlog.demo.place import Place
from dlog.demo.proof import Proof, differences
from dlog.demo.writer_process import TAKE_OVER_AT
from dlog.errors import DataLossError

_KILLED_AFTER = 3_000
"""Rows that Spark has written when it is killed."""


class SparkPart:
    """State shared by the steps. The log that the demo has filled before is read, and two others are written."""

    def __init__(
        self,
        place: Place,
        flights: Sequence[Flight],
        file: Path,
        directory: Path,
        say: Callable[[str], None],
    ) -> None:
        self._place = place
        self._flights = flights
        self._file = file
        self._directory = directory
        self._say = say
        self._delays = [replace(flight, line=delay_field(flight.line)) for flight in flights]
        self._copied = Proof(self._delays)
        self._may_be_killed = asyncio.Event()

    async def run(self, client: LogClient) -> None:
        """Run all steps, in order."""
        await client.create(self._place.live)
        await client.create(self._place.delays)
        following = asyncio.create_task(self._follow(client))
        children = [await self._start_spark("spark-1")]
        try:
            await children[0].event("streaming")
            self._say(
                f"Spark follows log {self._place.live!r} and writes delays to log {self._place.delays!r}"
            )
            done = await self._write(children, following)
            self._say(
                f"two writers have appended all {len(self._flights):,} flights, with a takeover and "
                f"{done} rotations, while Spark followed"
            )
            await _while_it_runs(children[-1], following)
            await self._query(children[-1])
        finally:
            following.cancel()
            for child in children:
                await child.stop()
        await self._prove_copy(client)

    # ---- writing, while Spark follows

    async def _write(self, children: list[Child], following: asyncio.Task[None]) -> int:
        """Rotations of both writers. On return each flight is acknowledged, and Spark was killed and runs again."""
        first = await self._start_writer("live-first", slow_from=TAKE_OVER_AT)
        children.append(first)
        await first.event("acked", lambda event: event["count"] >= TAKE_OVER_AT)
        second = await self._start_writer("live-second", slow_from=len(self._flights))
        children.append(second)
        await first.event("deposed")
        await _while_it_runs(children[0], asyncio.create_task(self._may_be_killed.wait()))
        if following.done():
            following.result()  # raises what is wrong with the copy
        await children[0].stop()
        self._say(f"kill -9: Spark, when {self._copied.count:,} delays were readable")
        again = await self._start_spark("spark-2")
        children.append(again)
        await again.event("streaming")
        self._say("Spark is started again, with the checkpoint that the killed one left")
        done = await second.event("done")
        return len(first.all("rotated")) + int(done["rotations"])

    async def _start_writer(self, name: str, slow_from: int) -> Child:
        return await Child.start(
            "dlog.demo.writer_process",
            self._place.uri,
            self._place.live,
            str(self._file),
            str(slow_from),
            log=self._directory / f"{name}.log",
        )

    async def _start_spark(self, name: str) -> Child:
        place = self._place
        return await Child.start(
            "dlog.demo.spark_process",
            place.uri,
            place.log,
            place.live,
            place.delays,
            str(self._directory),
            log=self._directory / f"{name}.log",
            with_all_it_starts=True,
        )

    # ---- the copy

    async def _follow(self, client: LogClient) -> None:
        """Compare what Spark writes with the file, until all of it is there."""
        try:
            async with client.tail(self._place.delays, start="earliest") as reader:
                async for batch in reader.batches():
                    self._copied.check(batch)
                    if self._copied.count >= _KILLED_AFTER:
                        self._may_be_killed.set()
                    if self._copied.complete:
                        return
        finally:
            self._may_be_killed.set()

    async def _prove_copy(self, client: LogClient) -> None:
        """Once more as a whole, now that nothing writes it."""
        proof = Proof(self._delays)
        async with client.reader(self._place.delays, until="latest") as reader:
            async for batch in reader.batches():
                proof.check(batch)
        if not proof.complete:
            raise DataLossError(f"Spark wrote {proof.count} of {len(self._delays)} delays")
        self._say(
            f"log {self._place.delays!r} has each of {proof.count:,} delays once and in order, although Spark "
            "was killed"
        )

    # ---- the query

    async def _query(self, spark: Child) -> None:
        started = time.monotonic()
        spark.send("means")
        found = await spark.event("means")
        wanted = mean_delay_by_carrier(self._flights)
        wrong = differences(found["mean"], wanted)
        if wrong or found["flights"] != len(self._flights):
            raise DataLossError(
                f"Spark read {found['flights']} of {len(self._flights)} flights; its means differ for "
                f"{', '.join(wrong) or 'no carrier'}"
            )
        carrier = max(wanted, key=lambda name: wanted[name])
        self._say(
            f"Spark read log {self._place.log!r} in {time.monotonic() - started:.1f} s; mean departure delays of "
            f"{len(wanted)} carriers equal those of the file, the longest is {carrier}: {wanted[carrier]:.1f} minutes"
        )


async def _while_it_runs(spark: Child, work: asyncio.Task[Any]) -> None:
    """Wait for the work. ChildFailedError: Spark has ended before it."""
    ended = asyncio.create_task(spark.event("means"))  # which comes only when it is asked for
    await asyncio.wait((work, ended), return_when=asyncio.FIRST_COMPLETED)
    if not work.done():
        work.cancel()
        ended.result()
    ended.cancel()
    work.result()
