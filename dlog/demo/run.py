"""The demonstration's course: two writers, a live reader, a kill, a takeover, the proof."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import statistics
import tempfile
import time
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

from dlog.client import LogClient, connect
from dlog.demo.child import Child
from dlog.demo.flights import Flight, find_file, load, mean_delay_by_carrier
from dlog.demo.place import Place, find_place
from dlog.demo.proof import Proof, differences, longest_pause_ms
from dlog.demo.spark_needs import require_spark
from dlog.errors import DataLossError, StandaloneError
from dlog.local.embedded import Standalone
from dlog.model import MessageId

KILL_AT, TAKE_OVER_AT = 4_000, 9_000
"""Messages acknowledged when the bookie dies, and when the second writer's process starts."""
RETURN_AFTER = 2_000
"""Messages of the second writer before the bookie returns."""
TIME_LIMIT_S = 300
"""Ten times what it takes on two busy cores, Spark included."""


def run(*, spark: bool, keep: bool, metadata: str | None = None) -> None:
    """Tell the story, on the cluster at `metadata` if that is given.

    DataLossError if anything is lost, doubled or out of order; ConfigurationError at once if Spark is wanted and
    missing.
    """
    if spark:
        require_spark()
    file = find_file()
    flights = load(file)
    directory = Path(tempfile.mkdtemp(prefix="dlog-demo-"))
    try:
        print(_opening(metadata, directory), flush=True)
        with find_place(metadata, directory, keep=keep) as place:
            asyncio.run(_in_time(_Demo(place, flights, file, directory).tell(spark)))
    finally:
        if not keep:
            shutil.rmtree(directory)
    if keep:
        print(_closing(place, metadata, directory))


def _opening(metadata: str | None, directory: Path) -> str:
    if metadata is None:
        return f"three bookies and SQLite metadata start in {directory}"
    return f"the cluster is the one at {metadata}; working files are in {directory}"


def _closing(place: Place, metadata: str | None, directory: Path) -> str:
    kept = f"kept {directory} and log {place.log}"
    if place.own is None:
        return f"{kept}; `dlog delete {place.log}` removes it"
    there = "" if metadata is None else f" --metadata {shlex.quote(place.uri)}"
    return f"{kept}; `dlog standalone --data {directory / 'cluster'}{there}` brings the cluster up again"


async def _in_time(story: Coroutine[Any, Any, None]) -> None:
    try:
        async with asyncio.timeout(TIME_LIMIT_S):
            await story
    except TimeoutError as error:
        raise StandaloneError(
            f"the demonstration has not ended after {TIME_LIMIT_S} s and is given up; "
            "the last line above says what it waited for"
        ) from error


class _Demo:
    """The state that the parts of the story share."""

    def __init__(self, place: Place, flights: Sequence[Flight], file: Path, directory: Path) -> None:
        self._place = place
        self._flights = flights
        self._file = file
        self._directory = directory
        self._started = time.monotonic()
        self._live = Proof(flights)
        self._lags_ms: list[float] = []

    def _say(self, text: str) -> None:
        print(f"{time.monotonic() - self._started:5.1f} s  {text}", flush=True)

    async def tell(self, spark: bool) -> None:
        """The whole story, in order."""
        self._say(f"bookies serve at {', '.join(self._place.bookies)}")
        async with await connect(self._place.uri) as client:
            await client.create(self._place.log)
            tailing = asyncio.create_task(self._tail(client))
            try:
                await self._write()
                await asyncio.wait_for(tailing, 10)
            finally:
                tailing.cancel()
            self._say(
                f"the live reader saw all {self._live.count:,} in order, "
                f"{statistics.median(self._lags_ms):.1f} ms (median) after they were sent"
            )
            await self._prove(client)
        if spark:
            await self._compare_with_spark()
        self._say("done")

    # ---- writing

    async def _start_writer(self, name: str, slow_from: int) -> Child:
        return await Child.start(
            "dlog.demo.writer_process",
            self._place.uri,
            self._place.log,
            str(self._file),
            str(slow_from),
            log=self._directory / f"{name}.log",
        )

    async def _write(self) -> None:
        first = await self._start_writer("first", TAKE_OVER_AT)
        second: Child | None = None
        try:
            opened = await first.event("open")
            self._say(
                f"the first writer owns log {self._place.log!r} (epoch {opened['epoch']}) and sends flights"
            )
            if self._place.own is None:
                self._say("no bookie is killed: these are not the demonstration's own")
            else:
                await self._kill_a_bookie(first, self._place.own)
            second = await self._take_over(first)
            if self._place.own is not None:
                await self._bring_the_bookie_back(second, self._place.own)
            done = await second.event("done")
            self._say(
                f"all {len(self._flights):,} flights are acknowledged ({done['rotations']} rotations here)"
            )
        finally:
            for child in (first, second):
                if child is not None:
                    await child.stop()

    async def _kill_a_bookie(self, writer: Child, cluster: Standalone) -> None:
        await _acknowledged(writer, KILL_AT)
        await asyncio.to_thread(cluster.kill, 0)
        died = time.monotonic()
        self._say(f"kill -9: bookie {self._place.bookies[0]}")
        await _acknowledged(writer, KILL_AT + 2_000)
        times = [event["time"] for event in writer.all("acked") if event["time"] > died - 0.1]
        self._say(f"appends go on with two copies; the longest pause was {longest_pause_ms(times):.0f} ms")

    async def _take_over(self, first: Child) -> Child:
        await _acknowledged(first, TAKE_OVER_AT)
        self._say("a second process opens the log while the first goes on writing")
        second = await self._start_writer("second", len(self._flights))
        opened = await second.event("open")
        deposed = await first.event("deposed")
        last = first.all("acked")[-1]
        self._say(f"the first was acknowledged up to {last['id']} and then got {deposed['error']}:")
        self._say(f"    {deposed['message']}")
        resumed = await second.event("acked")
        copies = self._copies(degraded=opened["degraded"])
        pause = (resumed["time"] - last["time"]) * 1000
        self._say(
            f"the second owns it (epoch {opened['epoch']}, {copies}) after {opened['milliseconds']:.0f} ms, "
            f"read back {opened['first']:,} flights and goes on with {resumed['id']}; "
            f"from last to first acknowledgement {pause:.0f} ms"
        )
        return second

    def _copies(self, *, degraded: bool) -> str:
        if degraded:
            return "on the two bookies alive"
        # A store that tells the death of a process by a timeout lists it for a while.
        return "on three bookies" + (", the dead one still listed" if self._place.own is not None else "")

    async def _bring_the_bookie_back(self, writer: Child, cluster: Standalone) -> None:
        resumed = (await writer.event("open"))["first"]
        await _acknowledged(writer, resumed + RETURN_AFTER)
        await asyncio.to_thread(cluster.restart, 0)
        self._say(f"bookie {self._place.bookies[0]} is started again")

    # ---- reading

    async def _tail(self, client: LogClient) -> None:
        """Follow the log from its beginning until every flight has come by."""
        async with client.tail(self._place.log, start="earliest") as reader:
            async for batch in reader.batches():
                self._live.check(batch)
                self._lags_ms.append(time.time() * 1000 - batch.append_time_us / 1000)
                if self._live.complete:
                    return

    async def _prove(self, client: LogClient) -> None:
        started = time.monotonic()
        proof = Proof(self._flights)
        first, last = self._live.first, self._live.last
        assert first is not None and last is not None
        behind = MessageId(last.ledger_id, last.entry_id + 1, 0)
        async with client.reader(self._place.log, start=first, until=behind) as reader:
            async for batch in reader.batches():
                proof.check(batch)
        if not proof.complete:
            raise DataLossError(f"{proof.count} of {len(self._flights)} flights were read back")
        took = time.monotonic() - started
        self._say(
            f"read back {first} to {last} in {took * 1000:.0f} ms: {proof.count:,} flights, "
            "none lost, doubled or out of order"
        )
        await self._list_ledgers(client)

    async def _list_ledgers(self, client: LogClient) -> None:
        """Which ledgers the log has, and how many copies of each."""
        record = (await client.describe(self._place.log)).record
        takeovers = len({listed.epoch for listed in record.ledgers})
        rotations = len(record.ledgers) - takeovers
        self._say(f"{len(record.ledgers)} ledgers from {takeovers} takeovers and {rotations} rotations:")
        for listed in record.ledgers:
            metadata = (await client.ledgers.store.read_ledger(listed.ledger_id)).value
            entries = metadata.last_entry + 1
            self._say(
                f"    ledger {listed.ledger_id}, epoch {listed.epoch}: {entries} entries, "
                f"{metadata.length:,} bytes, on {metadata.quorum.ensemble} bookies"
            )

    async def _compare_with_spark(self) -> None:
        started = time.monotonic()
        query = await Child.start(
            "dlog.demo.spark_query",
            self._place.uri,
            self._place.log,
            str(self._directory),
            log=self._directory / "spark.log",
        )
        try:
            found = await query.event("means")
        finally:
            await query.stop()
        wanted = mean_delay_by_carrier(self._flights)
        wrong = differences(found["mean"], wanted)
        if wrong or found["flights"] != len(self._flights):
            raise DataLossError(
                f"Spark read {found['flights']} flights and other means for {', '.join(wrong)}"
            )
        carrier = max(wanted, key=lambda name: wanted[name])
        self._say(
            f"Spark reads the same log in {time.monotonic() - started:.1f} s: mean departure delay by carrier as "
            f"in the file, {len(wanted)} carriers, worst {carrier} with {wanted[carrier]:.1f} minutes"
        )


async def _acknowledged(writer: Child, count: int) -> None:
    await writer.event("acked", lambda event: event["count"] >= count)
