"""Fuzz all targets, or some.

    make fuzz SECONDS=600                          all targets, the time split between them
    make fuzz TARGET=v2-requests SECONDS=60
    python -m tests.helpers.fuzz --replay v2-requests FILE

Prints for each target executions, executions per second and findings. What fails is kept under
`.fuzz/TARGET/findings`, with the command that runs it again; the corpus grows under `.fuzz/TARGET/corpus`.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.helpers.fuzz.executions import PATH, Executions
from tests.helpers.fuzz.kept import kept_inputs
from tests.helpers.fuzz.registry import TARGETS
from tests.helpers.fuzz.target import Target, run_measured
from tests.helpers.repository import ROOT

DIRECTORY = ROOT / ".fuzz"
_EXECUTED = re.compile(r"^stat::number_of_executed_units: (\d+)$", re.MULTILINE)
_TRACEBACK = re.compile(
    r"^(?: === Uncaught.*|Traceback.*|  .*|\w[\w.]*(?:Error|Exception|Interrupt)\b.*)$(?:\n(?:  .*|\w[\w.]*Error.*))*",
    re.MULTILINE,
)
_DONE = re.compile(r"^#(\d+)\s", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Outcome:
    target: str
    executions: int
    seconds: float
    findings: tuple[Path, ...]
    output: str


def main(arguments: list[str] | None = None) -> int:
    """0: no findings. 1: there are."""
    given = _parser().parse_args(arguments)
    if given.list:
        print(*TARGETS, sep="\n")
        return 0
    if given.replay:
        return _replay(*given.replay)
    names = given.target.split(",") if given.target else list(TARGETS)
    if unknown := [name for name in names if name not in TARGETS]:
        print(f"unknown target {unknown[0]!r}; known are: {', '.join(TARGETS)}", file=sys.stderr)
        return 2
    each_s = max(1, round(given.seconds * given.processes / len(names)))
    executions = Executions.load(given.results)
    failed = 0
    with ThreadPoolExecutor(given.processes) as pool:
        for outcome in pool.map(lambda name: fuzz(TARGETS[name], each_s), names):
            _print(outcome)
            failed += len(outcome.findings)
            executions.add(outcome.target, outcome.executions, len(outcome.findings))
            executions.save(given.results)
    print(f"{executions.total} executions of this code in all, written to {given.results}")
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.helpers.fuzz", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--target", default="", help="names, separated by commas; without, all")
    parser.add_argument("--seconds", type=int, default=60, help="for all targets together")
    parser.add_argument("-j", "--processes", type=int, default=1)
    parser.add_argument("--list", action="store_true", help="print the names of the targets")
    parser.add_argument("--replay", nargs=2, metavar=("TARGET", "FILE"), help="run one input, measured")
    parser.add_argument("--results", type=Path, default=PATH)
    return parser


def fuzz(target: Target, seconds: int) -> Outcome:
    """Run the target in a process, then measure each input of the corpus that it has by then."""
    directory = _prepare(target)
    began = time.monotonic()
    searched = _child(target, seconds, directory)
    took_s = time.monotonic() - began
    measured = _child(target, 0, directory)
    counts = [_count(searched), _count(measured)]
    return Outcome(
        target.name,
        sum(counts),
        took_s,
        tuple(sorted((directory / "findings").iterdir())),
        searched if "ERROR" in searched or "Traceback" in searched else measured,
    )


def _prepare(target: Target) -> Path:
    directory = DIRECTORY / target.name
    for name in ("corpus", "findings"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    for path in (directory / "findings").iterdir():
        path.unlink()  # what is not fixed is found again: it is in the corpus of kept inputs, or near one
    for data in (*target.corpus(), *kept_inputs(target.name).values()):
        (directory / "corpus" / hashlib.sha1(data).hexdigest()).write_bytes(data)
    return directory


def _child(target: Target, seconds: int, directory: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.helpers.fuzz.child", target.name, str(seconds), str(directory)],
        cwd=ROOT,
        stdout=subprocess.PIPE,  # where atheris prints the exception
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=seconds + 600,
    )
    if done.returncode and not any((directory / "findings").iterdir()):
        raise RuntimeError(f"the run of {target.name} ended with {done.returncode}:\n{done.stdout[-4000:]}")
    return done.stdout


def _count(output: str) -> int:
    found = _EXECUTED.findall(output) or _DONE.findall(output)
    return int(found[-1]) if found else 0


def _print(outcome: Outcome) -> None:
    rate = outcome.executions / max(outcome.seconds, 0.001)
    print(
        f"{outcome.target:24} {outcome.executions:>10} executions {rate:>8.0f}/s {len(outcome.findings)} findings",
        flush=True,
    )
    if outcome.findings:
        print(*_TRACEBACK.findall(outcome.output)[-3:], sep="\n")
    for path in outcome.findings:
        print(f"  again: python -m tests.helpers.fuzz --replay {outcome.target} {path.relative_to(ROOT)}")


def _replay(name: str, file: str) -> int:
    """Raises what the input makes the target raise."""
    target = TARGETS[name]
    with target.session() as run:
        run_measured(target, run, Path(file).read_bytes())
    print(f"{name}: {file} passes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
