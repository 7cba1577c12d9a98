"""The steps of `dlog demo`: two writers, a reader that follows, a killed bookie, a takeover, the check, Spark."""

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
from dlog.demo.flights import Flight, find_file, load
from dlog.demo.place import Place, find_place
from dlog.demo.proof import Proof, longest_pause_ms
from dlog.demo.spark_needs import require_spark
from dlog.demo.spark_part import SparkPart
from dlog.demo.writer_process import TAKE_OVER_AT
from dlog.errors import DataLossError, StandaloneError
from dlog.inspection.ledgers import listed_ledgers
from dlog.local.embedded import Standalone
from dlog.model import MessageId
from ledger import whole_loop

KILL_AT = 4_000
"""Messages acknowledged when the bookie dies."""
RETURN_AFTER = 2_000
"""Messages of the second writer before the bookie returns."""
TIME_LIMIT_S = 300
"""Ten times what it takes on two busy cores, with Spark."""


def run(*, spark: bool, keep: bool, metadata: str | None = None) -> None:
    """Run the demo, on the cluster at `metadata` if that is given; print each step.

    Raises:
        DataLossError: a message is missing, duplicated or out of order.
        ConfigurationError: `spark` is set and Spark or Java is missing; nothing has been started.
        StandaloneError: the demo did not end within TIME_LIMIT_S.
        NotEnoughBookiesError: the cluster at `metadata` has too few; nothing has been started.
    """
    if spark:
        require_spark()
    file = find_file()
    flights = load(file)
    directory = Path(tempfile.mkdtemp(prefix="dlog-demo-"))
    try:
        print(_opening(metadata, directory), flush=True)
        with find_place(metadata, directory, keep=keep) as place:
            whole_loop.run(_in_time(_Demo(place, flights, file, directory).run(spark)))
    finally:
        if not keep:
            shutil.rmtree(directory)
    if keep:
        print(closing(place, metadata, directory))


def _opening(metadata: str | None, directory: Path) -> str:
    if metadata is None:
        return f"starting three bookies, with SQLite as metadata store, in {directory}"
    return f"using the cluster at {metadata}; working files are in {directory}"


def closing(place: Place, metadata: str | None, directory: Path) -> str:
    kept = f"kept {directory} and log {place.log}"
    if place.own is None:
        return f"{kept}; delete the log with `dlog delete {place.log}`"
    there = "" if metadata is None else f" --metadata {shlex.quote(place.uri)}"
    data = shlex.quote(str(directory / "cluster"))
    return f"{kept}; start the cluster again with `dlog standalone --data {data}{there}`"


async def _in_time(steps: Coroutine[Any, Any, None]) -> None:
    try:
        async with asyncio.timeout(TIME_LIMIT_S):
            await steps
    except TimeoutError as error:
        raise StandaloneError(
            f"the demo did not end within {TIME_LIMIT_S} s: the last line above is the step after which it waited"
        ) from error


class _Demo:
    """State shared by the steps."""

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

    async def run(self, spark: bool) -> None:
        """Run all steps, in order."""
        self._say(f"bookies are running at {', '.join(self._place.bookies)}")
        async with await connect(self._place.uri) as client:
            await client.create(self._place.log)
            tailing = asyncio.create_task(self._tail(client))
            try:
                await self._write()
                await asyncio.wait_for(tailing, 10)
            finally:
                tailing.cancel()
            self._say(
                f"the following reader got all {self._live.count:,} flights in order, "
                f"a median of {statistics.median(self._lags_ms):.1f} ms after they were appended"
            )
            await self._prove(client)
            if spark:
                part = SparkPart(self._place, self._flights, self._file, self._directory, self._say)
                await part.run(client)
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
                f"the first writer owns log {self._place.log!r} (epoch {opened['epoch']}) and appends flights"
            )
            if self._place.own is None:
                self._say("no bookie is killed, since the demo did not start these")
            else:
                await self._kill_a_bookie(first, self._place.own)
            second = await self._take_over(first)
            if self._place.own is not None:
                await self._bring_the_bookie_back(second, self._place.own)
            done = await second.event("done")
            self._say(
                f"all {len(self._flights):,} flights are acknowledged ({done['rotations']} rotations by this writer)"
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
        self._say(f"appends continue with two copies; the longest pause was {longest_pause_ms(times):.0f} ms")

    async def _take_over(self, first: Child) -> Child:
        await _acknowledged(first, TAKE_OVER_AT)
        self._say("a second process opens the log while the first is still writing")
        second = await self._start_writer("second", len(self._flights))
        opened = await second.event("open")
        deposed = await first.event("deposed")
        last = first.all("acked")[-1]
        self._say(f"the first writer got acknowledgements up to {last['id']}, then {deposed['error']}:")
        self._say(f"    {deposed['message']}")
        resumed = await second.event("acked")
        copies = self._copies(degraded=opened["degraded"])
        pause = (resumed["time"] - last["time"]) * 1000
        self._say(
            f"the second writer owns the log (epoch {opened['epoch']}, {copies}) after "
            f"{opened['milliseconds']:.0f} ms, finds {opened['first']:,} flights and continues with {resumed['id']}; "
            f"{pause:.0f} ms between the last and the first acknowledgement"
        )
        return second

    def _copies(self, *, degraded: bool) -> str:
        if degraded:
            return "on the two bookies that are up"
        # ZooKeeper lists a dead bookie until its session times out.
        return "on three bookies" + (
            ", one of them dead but still listed" if self._place.own is not None else ""
        )

    async def _bring_the_bookie_back(self, writer: Child, cluster: Standalone) -> None:
        resumed = (await writer.event("open"))["first"]
        await _acknowledged(writer, resumed + RETURN_AFTER)
        await asyncio.to_thread(cluster.restart, 0)
        self._say(f"bookie {self._place.bookies[0]} is restarted")

    # ---- reading

    async def _tail(self, client: LogClient) -> None:
        """Follow the log from its beginning until every flight has been read."""
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
        end = MessageId(last.ledger_id, last.entry_id + 1, 0)
        async with client.reader(self._place.log, start=first, until=end) as reader:
            async for batch in reader.batches():
                proof.check(batch)
        if not proof.complete:
            raise DataLossError(f"only {proof.count} of {len(self._flights)} flights were read back")
        took = time.monotonic() - started
        self._say(
            f"read back {first} to {last} in {took * 1000:.0f} ms: {proof.count:,} flights, "
            "none missing, duplicated or out of order"
        )
        await self._list_ledgers(client)

    async def _list_ledgers(self, client: LogClient) -> None:
        """Print the log's ledgers and how many bookies each is on."""
        ledgers = await listed_ledgers(client, self._place.log)
        takeovers = len({listed.epoch for listed in ledgers})
        rotations = len(ledgers) - takeovers
        self._say(f"{len(ledgers)} ledgers from {takeovers} takeovers and {rotations} rotations:")
        for listed in ledgers:
            metadata = (await client.ledgers.store.read_ledger(listed.ledger_id)).value
            entries = metadata.last_entry + 1
            self._say(
                f"    ledger {listed.ledger_id}, epoch {listed.epoch}: {entries} entries, "
                f"{metadata.length:,} bytes, on {metadata.quorum.ensemble} bookies"
            )


async def _acknowledged(writer: Child, count: int) -> None:
    await writer.event("acked", lambda event: event["count"] >= count)
