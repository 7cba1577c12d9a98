"""Forced restarts of an exactly-once query, on a cluster of its own.

    python -m tests.helpers.spark_restarts --restarts 100 --seconds 600 --seed 1

Prints a line for each restart and a total; the exit code is 1 if a message is lost, doubled or out of order. After
SIGTERM, as `timeout` sends it, no restart begins, and the total is that of those so far, a minute later.
"""

from __future__ import annotations

import argparse
import signal
import tempfile
import time
from pathlib import Path

import dlog
from tests.helpers.spark_restarts.run import Restarts


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.helpers.spark_restarts")
    parser.add_argument("--restarts", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=600.0, help="no restart begins later")
    parser.add_argument("--seed", type=int, default=1, help="of the times between a start and its kill -9")
    parser.add_argument(
        "--metadata", help="address of a metadata store; default: SQLite in a temporary directory"
    )
    given = parser.parse_args()
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="dlog-restarts-") as name:
        home = Path(name)
        (home / "spark").mkdir()
        with dlog.standalone(home / "cluster", metadata=given.metadata) as cluster:
            run = Restarts(cluster.uri, home / "spark", given.seed)
            signal.signal(signal.SIGTERM, lambda *_: run.stop())
            result = run.run(given.restarts, began_s + given.seconds, lambda line: print(line, flush=True))
    for violation in result.violations[:20]:
        print(f"VIOLATION: {violation}")
    states = ", ".join(f"{count} {state}" for state, count in sorted(result.states.items()))
    print(
        f"{result.restarts} restarts ({states}) in {time.monotonic() - began_s:.0f} s: {result.rows} messages in "
        f"{result.batches} batches, {len(result.violations)} lost, doubled or out of order; {result.strays} ledgers of "
        "killed tasks swept" + ("" if result.is_complete else "; the rest was not copied in time")
    )
    return 1 if result.violations else 0


if __name__ == "__main__":
    raise SystemExit(main())
