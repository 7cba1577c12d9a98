"""One seed after the other, each with a fresh cluster, until the time is over.

    python -m tests.helpers.nemesis --seconds 1800 --metadata zookeeper

Prints a line for each seed and a total. With `--write` the total goes to tests/helpers/evidence/nemesis.json after
each seed, added to what the file has of this code, and the seeds go on where it ends. A seed that is refused, or that
came to no end, leaves its histories in `--keep`; the exit code is then 1.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

from dlog.blocking.loop_thread import fastest_loop
from ledger.errors import LogStoreError
from tests.helpers.evidence.machine import commit, day
from tests.helpers.nemesis.cluster import STORES
from tests.helpers.nemesis.result import (
    NemesisResult,
    of_current_code,
    result_of,
    save_result,
    total,
    without_end,
)
from tests.helpers.nemesis.run import Plan, plan_of, run
from tests.helpers.processes.python import ChildFailedError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.helpers.nemesis")
    parser.add_argument("--seconds", type=float, default=60.0, help="of chaos, all seeds together")
    parser.add_argument("--seed-seconds", type=float, default=60.0, help="of chaos, each seed")
    parser.add_argument("--first-seed", type=int, help="default: 1, or the first that the file lacks")
    parser.add_argument("--metadata", choices=STORES, default="sqlite")
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "nemesis")
    parser.add_argument("--write", action="store_true", help="the total, for docs/reliability.md")
    options = parser.parse_args()
    before = of_current_code(options.metadata) if options.write else None
    results = [before] if before is not None else []
    version, left_s = commit(), options.seconds
    seed = options.first_seed or (before.seeds if before is not None else 0) + 1
    while left_s > 0:
        plan = plan_of(seed, options.metadata, min(left_s, options.seed_seconds))
        results = [total([*results, _run(plan, options.keep, version)])]
        if options.write:
            save_result(results[0])
        seed, left_s = seed + 1, left_s - plan.seconds
    [whole] = results
    print(
        f"total: {whole}; failed seeds: {list(whole.failed_seeds) or 'none'}; faults {json.dumps(whole.faults)}"
    )
    return 1 if whole.failed_seeds or whole.lost else 0


def _run(plan: Plan, keep: Path, version: str) -> NemesisResult:
    """A seed that came to no end that could be checked has failed."""
    directory = Path(tempfile.mkdtemp(prefix="nemesis-"))
    sound = False
    began = time.monotonic()
    try:
        with asyncio.Runner(loop_factory=fastest_loop) as runner:
            done = runner.run(run(plan, directory))
        sound = not done.wrong
        print(f"{done.summary()} ({time.monotonic() - began:.0f} s)", flush=True)
        for line in (*done.wrong, *(done.steps if done.wrong else ())):
            print(f"    {line}")
        return result_of(done, commit=version, day=day())
    except (AssertionError, LogStoreError, OSError, ChildFailedError):
        print(f"{plan} did not come to its end:", flush=True)
        traceback.print_exc()
        return without_end(plan, commit=version, day=day())
    finally:
        if not sound:
            shutil.copytree(directory, keep / f"{plan.metadata}-{plan.seed}", dirs_exist_ok=True)
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
