"""Play the whole matrix and print it: `python -m tests.helpers.matrix [--runs 10]`.

Needs Java and the jars (`tools/fetch-java-libs`). Ends with 1 if anything failed; the stories follow the table.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import product
from pathlib import Path

from tests.helpers.apache.cluster import MixedCluster
from tests.helpers.apache.java_client import JavaClient, JavaProcess, compile_driver, java_client
from tests.helpers.matrix.cells import CELLS, MIXES, WIRES, WRITERS, Cell, Stage, members_of, spares_of, stage
from tests.helpers.matrix.runner import (
    Results,
    kind_of,
    play,
    play_death_of_a_bookie,
    play_death_of_zookeeper,
)

_HEADINGS = {
    "ours": "our client writes, Java's does the rest",
    "java": "Java's client writes, ours does the rest",
}


@asynccontextmanager
async def both_versions(
    cluster: MixedCluster, java: dict[str, JavaClient], mix: str
) -> AsyncIterator[dict[str, Stage]]:
    """A stage for each version; new ledgers lie on the members of this mix."""
    async with AsyncExitStack() as stack:
        stages = {wire: await stack.enter_async_context(stage(cluster, java[wire], wire)) for wire in WIRES}
        for each in stages.values():
            await each.allow(members_of(cluster, mix), spares_of(cluster, mix))
        yield stages


async def play_everything(cluster: MixedCluster, java: dict[str, JavaClient], results: Results) -> None:
    """All scenarios in all cells, and all deaths."""
    for mix in MIXES:
        cells = [cell for cell in CELLS if cell.mix == mix]
        await _play_quietly(cluster, java, mix, cells, results)
        for kind in ("ours", "apache"):
            victims = [bookie for bookie in members_of(cluster, mix) if kind_of(bookie) == kind]
            if victims:
                await asyncio.to_thread(cluster.start_all)
                async with both_versions(cluster, java, mix) as stages:
                    await play_death_of_a_bookie(stages, cells, victims[0], results)
        await asyncio.to_thread(cluster.start_all)
        async with both_versions(cluster, java, mix) as stages:
            await play_death_of_zookeeper(stages, cells, results)


async def _play_quietly(
    cluster: MixedCluster, java: dict[str, JavaClient], mix: str, cells: list[Cell], results: Results
) -> None:
    await asyncio.to_thread(cluster.start_all)
    async with both_versions(cluster, java, mix) as stages:
        for wire, each in stages.items():
            await play(each, [cell for cell in cells if cell.wire == wire], results)


def table(results: Results) -> str:
    """Rows are scenarios, columns mixes and versions; a field counts digests and runs: held, or held/played."""
    scenarios = list(dict.fromkeys(name for _, name in results.played))
    width = max(len(name) for name in scenarios)
    lines: list[str] = []
    for writer in WRITERS:
        columns = list(product(MIXES, WIRES))
        lines += [
            f"\n{_HEADINGS[writer]}",
            " " * width + "".join(f"{f'{mix} {wire}':>11}" for mix, wire in columns),
        ]
        for name in scenarios:
            fields = [_field(results, (mix, writer, wire), name) for mix, wire in columns]
            lines.append(f"{name:<{width}}" + "".join(f"{field:>11}" for field in fields))
    return "\n".join(lines)


def _field(results: Results, row: tuple[str, str, str], scenario: str) -> str:
    played, held = results.played[row, scenario], results.held[row, scenario]
    if not played:
        return "-"
    return str(held) if held == played else f"{held}/{played}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.helpers.matrix", description=__doc__)
    parser.add_argument("--runs", type=int, default=1, help="how often, one after another")
    runs = parser.parse_args().runs
    # That ZooKeeper goes away is the point; kazoo would tell of it again and again.
    logging.disable(logging.WARNING)
    results = Results()
    with (
        tempfile.TemporaryDirectory(prefix="matrix-") as name,
        MixedCluster(Path(name) / "cluster", apache=4, ours=4) as cluster,
    ):
        classes = Path(name) / "classes"
        classes.mkdir()
        jvm = JavaProcess(compile_driver(classes), Path(name) / "client.log")
        try:
            java = {
                "v3": java_client(jvm, "v3", cluster.uri),
                "v2": java_client(jvm, "v2", cluster.uri, useV2WireProtocol="true"),
            }
            for number in range(1, runs + 1):
                started, failed = time.monotonic(), len(results.failures)
                asyncio.run(play_everything(cluster, java, results))
                new = len(results.failures) - failed
                print(f"run {number}: {time.monotonic() - started:.0f} s, {new} failed", flush=True)
        finally:
            jvm.stop()
    print(table(results))
    print(f"\n{results.held.total()} of {results.played.total()} held in {len(CELLS)} cells and {runs} runs")
    for failure in results.failures:
        print(failure, file=sys.stderr)
    return 1 if results.failures else 0


if __name__ == "__main__":
    sys.exit(main())
