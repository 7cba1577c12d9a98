"""Commands that go on showing: top, and info --watch. On a terminal they redraw the screen; else they print anew."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Annotated

import typer

from dlog.cli.live.view import Size, view
from dlog.cli.options import Metadata, Namespace, Table, TableOutput, administer
from dlog.cli.outage import Outage
from ledger.command_line import interrupt_without_reader
from ledger.errors import ConfigurationError
from ledger.printing import (
    json_text,
    lines_of_facts,
    print_json,
    print_stream,
    require_stdout,
    terminal_width,
)

if TYPE_CHECKING:
    from dlog.cache.metadata_cache import MetadataCache
    from dlog.cli.describe.activity import Damaged
    from dlog.client import LogClient
    from dlog.inspection.activity import LogActivity
    from dlog.inspection.overview import Overview

INTERVAL_S = 2.0
INTERVAL_S_MAX = 86_400.0
_TAIL_S = 1.0
"""How often the tail of a watched log is read: appends change no metadata."""
_NEW_LOGS_S = 5.0
"""How often logs are looked for that were created since."""


def register(app: typer.Typer) -> None:
    app.command()(top)


def top(
    interval_s: Annotated[
        float, typer.Option("--interval", "-d", metavar="SECONDS", help="Time between two measurements.")
    ] = INTERVAL_S,
    times: Annotated[
        int | None,
        typer.Option("-n", metavar="N", min=1, help="Number of measurements; default: until Ctrl-C."),
    ] = None,
    metadata: Metadata = "",
    namespace: Namespace = "default",
    output: Table = TableOutput.TEXT,
) -> None:
    """Show the logs of a namespace, the busiest first, until Ctrl-C."""
    require_stdout()
    if not 0 < interval_s <= INTERVAL_S_MAX:
        raise ConfigurationError(
            f"--interval must be positive and at most {INTERVAL_S_MAX:g} (a day), got {interval_s:g}"
        )
    try:
        administer(metadata, namespace, lambda client: _top(client, interval_s, times, output))
    except KeyboardInterrupt:
        # Without a number of measurements, Ctrl-C is how it ends.
        if times is not None:
            raise


def watch_info(log: str, metadata: str, namespace: str, output: TableOutput) -> None:
    """Show a log whenever its metadata or its tail changes, until Ctrl-C."""
    require_stdout()
    with suppress(KeyboardInterrupt):  # Ctrl-C is how it ends
        administer(metadata, namespace, lambda client: _watch(client, log, output))


async def _watch(client: LogClient, log: str, output: TableOutput) -> None:
    import asyncio

    from dlog.cli.describe.overview import document_of, facts_of

    interrupt_without_reader()
    async with cache_of(client) as cache:
        changed = asyncio.Event()
        cache.on_change(lambda snapshot, disappeared: changed.set())
        await cache.follow_logs([client.name(log)])
        found: Overview | None = await client.overview(log)
        before: Overview | None = None
        with view(redrawn=output is TableOutput.TEXT) as shown:
            outage = Outage(shown, client.ledgers.environment)
            while True:
                if found is None or found == before:
                    shown.redraw()
                elif output is TableOutput.JSON:
                    print_stream([document_of(found)], as_json=True)
                else:
                    shown.show(partial(_facts_lines, lines_of_facts(facts_of(found))))
                before = found or before
                with suppress(TimeoutError):
                    # Not wait_for: of an event that is set, it takes a Ctrl-C for one that came too late (Python 3.11).
                    async with asyncio.timeout(_TAIL_S):
                        await changed.wait()
                changed.clear()
                found = await outage.result_of(client.overview(log))


def _facts_lines(lines: list[str], size: Size | None) -> list[str]:
    return lines


async def _top(client: LogClient, interval_s: float, times: int | None, output: TableOutput) -> None:
    import asyncio

    from dlog.cli.describe.activity import cluster_line, top_documents
    from dlog.inspection.activity import ActivityMonitor

    if times is None:
        interrupt_without_reader()
    loop = asyncio.get_running_loop()
    async with cache_of(client) as cache:
        await _follow_logs(client, cache)
        monitor = ActivityMonitor(client, cache)
        await monitor.measure()
        due = loop.time()
        with view(redrawn=times is None and output is TableOutput.TEXT) as shown:
            outage = Outage(shown, client.ledgers.environment)
            async with _new_logs_followed(client, cache, outage):
                for _ in count() if times is None else range(times):
                    due = max(due + interval_s, loop.time())
                    await asyncio.sleep(due - loop.time())
                    found = await monitor.measure()
                    damaged = cache.snapshot.damaged
                    if output is TableOutput.JSON:
                        _print_documents(top_documents(found, damaged), alone=times == 1)
                        continue
                    shown.show(partial(_top_lines, cluster_line(cache.snapshot, found), found, damaged))


def _print_documents(documents: list[dict[str, object]], *, alone: bool) -> None:
    """One document; of several each is a line, printed when it is known."""
    if alone:
        print_json(documents)
    else:
        print(json_text(documents, ensure_ascii=True), flush=True)


def _top_lines(cluster: str, found: Sequence[LogActivity], damaged: Damaged, size: Size | None) -> list[str]:
    from dlog.cli.live.top_lines import all_lines, lines_that_fit

    if size is None:
        return all_lines(cluster, found, damaged, terminal_width())
    return lines_that_fit(cluster, found, damaged, size)


@asynccontextmanager
async def cache_of(client: LogClient) -> AsyncIterator[MetadataCache]:
    async with client.metadata_cache() as cache:
        yield cache


async def _follow_logs(client: LogClient, cache: MetadataCache) -> None:
    await cache.follow_logs([client.name(log) for log in await client.list()])


@asynccontextmanager
async def _new_logs_followed(client: LogClient, cache: MetadataCache, outage: Outage) -> AsyncIterator[None]:
    """Logs created from now on are in the cache after some seconds, or after an outage of the metadata store."""
    import asyncio

    async def go_on() -> None:
        while True:
            await asyncio.sleep(_NEW_LOGS_S)
            await outage.result_of(_follow_logs(client, cache))

    task = asyncio.create_task(go_on())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()
