"""How long do `import dlog` and `dlog --help` take?

Fresh processes, in turns with the floor: a Python that does nothing. An import is timed inside its process,
a command from outside.
"""

from __future__ import annotations

import asyncio
import sys
import time

from benchmarks.options import Options
from benchmarks.report import Report
from benchmarks.rows import Runs
from tests.helpers.repository import ROOT

_IMPORT = "import time; t = time.perf_counter(); import dlog; print(time.perf_counter() - t)"
_HELP = "import sys; sys.argv = ['dlog', '--help']; from dlog.cli.main import main; main()"
_COMMAND = "whole process"
_INSIDE = "inside the process"


async def run(options: Options) -> Report:
    runs = Runs()
    for _ in range(options.starts):
        runs.add(_COMMAND, "python -c pass", (await _time_process("pass"))[0] * 1e3)
        runs.add(_INSIDE, "import dlog", float((await _time_process(_IMPORT))[1]) * 1e3)
        runs.add(_COMMAND, "dlog --help", (await _time_process(_HELP))[0] * 1e3)
    report = Report("startup", "How long do `import dlog` and `dlog --help` take?")
    floor = runs.median(_COMMAND, "python -c pass")
    report.add(runs.row(_COMMAND, "python -c pass", "ms"))
    report.add(runs.row(_INSIDE, "import dlog", "ms", floor=floor, target=150))
    report.add(runs.row(_COMMAND, "dlog --help", "ms", floor=floor, target=300))
    return report


async def _time_process(code: str) -> tuple[float, str]:
    """Seconds from start to end of `python -c code`, and what it printed."""
    started = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    elapsed = time.perf_counter() - started
    if process.returncode != 0:
        raise RuntimeError(f"`python -c {code!r}` ended with {process.returncode}")
    return elapsed, printed.decode()
