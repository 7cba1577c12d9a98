"""One target in a process of its own: `python -m tests.helpers.fuzz.child TARGET SECONDS DIRECTORY`.

The directory has the corpus (`corpus/`), which grows, and gets what fails (`findings/`). With atheris the search is
guided by coverage and ends at the first finding; without, inputs are mutated blindly, with more findings possible.
`SECONDS` 0: run each input of the corpus once, measured, and each of `tests/fuzz/kept`.
"""

from __future__ import annotations

import hashlib
import random
import resource
import sys
import time
import traceback
from pathlib import Path
from types import ModuleType

try:
    import atheris
except ImportError:
    atheris = None

from tests.helpers.fuzz.mutating import mutants

MEASURED_EVERY = 64
"""Every 64th input is measured: the others are only run."""
ADDRESS_SPACE_BYTES = 3 << 30
"""One allocation above it fails in every run, measured or not."""
HANG_S = 30
"""Wall clock. The bound of the targets is CPU time, and smaller."""


def main(name: str, seconds: int, directory: Path) -> int:
    registry = _registry()
    target = registry.TARGETS[name]
    corpus = directory / "corpus"
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    with target.session() as run:
        if not seconds:
            return _measure_all(target, run, sorted(corpus.iterdir()), directory)
        if atheris is None:
            return _blindly(target, run, seconds, directory)
        _fuzz(target, run, seconds, directory)
    return 0


def _registry() -> ModuleType:
    if atheris is None:
        from tests.helpers.fuzz import registry
    else:
        with atheris.instrument_imports(include=["ledger", "dlog", "bookie_server"]):
            from tests.helpers.fuzz import registry
    return registry


def _fuzz(target, run, seconds: int, directory: Path) -> None:
    from tests.helpers.fuzz.target import run_measured

    count = 0

    def one(data: bytes) -> None:
        nonlocal count
        count += 1
        if count % MEASURED_EVERY:
            run(data)
        else:
            run_measured(target, run, data)

    options = {
        "max_total_time": seconds,
        "max_len": target.input_bytes_max,
        "timeout": HANG_S,
        "rss_limit_mb": ADDRESS_SPACE_BYTES >> 20,
        "artifact_prefix": f"{directory}/findings/",
        "print_final_stats": 1,
        "verbosity": 1,
    }
    arguments = [f"-{name}={value}" for name, value in options.items()]
    atheris.Setup([sys.argv[0], *arguments, str(directory / "corpus")], one)
    atheris.Fuzz()


def _blindly(target, run, seconds: int, directory: Path) -> int:
    """The same loop without coverage. Prints its count in libFuzzer's words."""
    inputs = [path.read_bytes() for path in sorted((directory / "corpus").iterdir())]
    count, failed, until = 0, 0, time.monotonic() + seconds
    for data in mutants(inputs, random.Random(), target.input_bytes_max):
        failed += _try(target, run, data, directory, measured=count % MEASURED_EVERY == 0)
        count += 1
        if time.monotonic() > until or failed:
            break
    print(f"stat::number_of_executed_units: {count}", file=sys.stderr)
    return failed


def _measure_all(target, run, paths: list[Path], directory: Path) -> int:
    failed = 0
    for path in paths:
        failed += _try(target, run, path.read_bytes(), directory, measured=True)
    print(f"stat::number_of_executed_units: {len(paths)}", file=sys.stderr)
    return 1 if failed else 0


def _try(target, run, data: bytes, directory: Path, *, measured: bool) -> int:
    from tests.helpers.fuzz.target import run_measured

    try:
        run_measured(target, run, data) if measured else run(data)
    except Exception:  # noqa: BLE001 - whatever leaves a target is a finding
        traceback.print_exc()
        path = directory / "findings" / f"crash-{hashlib.sha1(data).hexdigest()}"
        path.write_bytes(data)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])))
