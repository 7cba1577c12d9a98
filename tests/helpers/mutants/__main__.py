"""Plants every operator mutant of the cores, one at a time, and runs the unit tests that execute the function.

    python -m tests.helpers.mutants --package ledger.core --package dlog.core -j 2
    python -m tests.helpers.mutants --package dlog.core --seconds 200     goes on where the last call ended

A mutant is killed by a test that fails or hangs. One that survives, or whose tests take too long, is killed by a new
test, or is explained in explained.toml: the change makes no difference that anything could see. Outcomes of functions
whose code and tests are as before are not tried again (`.mutants/`); the counts go to
tests/helpers/evidence/mutants.json.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType

import pytest

from tests.helpers.evidence.measurement import FOLDER, Measurement, Rows
from tests.helpers.evidence.sources import fingerprint
from tests.helpers.mutants.children import Ended, run_all
from tests.helpers.mutants.operators import Site, sites
from tests.helpers.mutants.planting import function_of, plant
from tests.helpers.mutants.tests_of import OPTIONS, load_profile, tests_of
from tests.helpers.repository import ROOT

WORK = ROOT / ".mutants"
EXPLAINED = Path(__file__).with_name("explained.toml")
SUMMARY = FOLDER / "mutants.json"
TESTS = {
    "ledger": ("tests/unit/ledger", "tests/scenarios"),
    "dlog": ("tests/unit/dlog",),
    "bookie_server": ("tests/unit/bookie_server",),
}
PACKAGES = ("ledger.core", "dlog.core")
TIMEOUT_S = 300.0
"""Of all tests of one mutant. A test that hangs fails within 20 s, so this is no sign that the mutant was found."""
QUICK_TESTS = 20
"""Run before all others: they kill most mutants, and a property test takes seconds."""
Outcomes = dict[str, dict[str, object]]


def main(arguments: list[str] | None = None) -> int:
    """0: every survivor is explained. 1: one is not."""
    given = _parser().parse_args(arguments)
    WORK.mkdir(exist_ok=True)
    until = time.monotonic() + given.seconds
    failed = 0
    for package in given.package or PACKAGES:
        modules = [importlib.import_module(name) for name in _modules(package)]
        paths = tuple(given.tests or TESTS[package.partition(".")[0]])
        found = _tests(package, modules, paths, given.retest)
        for module in modules:
            outcomes = _run(module, found, given.processes, until)
            failed += _report(module, outcomes)
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.helpers.mutants", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--package", action="append", help="or one module; default: the cores")
    parser.add_argument("-j", "--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after this time, to go on later")
    parser.add_argument(
        "--tests", action="append", metavar="PATH", help="these tests only: quicker, and kills less"
    )
    parser.add_argument("--retest", action="store_true", help="find out again which tests execute what")
    return parser


def _modules(package: str) -> list[str]:
    path = ROOT / package.replace(".", "/")
    if not path.is_dir():
        return [package]
    files = sorted(path.glob("*.py"), key=lambda file: file.stat().st_size)  # what is short is done first
    return [f"{package}.{file.stem}" for file in files if file.stem != "__init__"]


# ---- tests


def _tests(
    package: str, modules: list[ModuleType], paths: tuple[str, ...], retest: bool
) -> dict[str, list[str]]:
    """`module:function` → tests, from the last call if the production code and the tests are the same."""
    digest = _digest(
        *paths,
        *(file.read_text("utf-8") for path in paths for file in sorted((ROOT / path).rglob("*.py"))),
        *sorted(Path(str(module.__file__)).read_text("utf-8") for module in modules),
    )
    kept = WORK / f"tests-of-{package}.json"
    if kept.exists() and not retest:
        found = json.loads(kept.read_text("utf-8"))
        if found["digest"] == digest:
            return dict(found["tests"])
    print(f"{package}: which tests of {', '.join(paths)} execute what", flush=True)
    tests = tests_of(modules, paths, WORK / "notes.json")
    kept.write_text(json.dumps({"digest": digest, "tests": tests}, indent=1), "utf-8")
    return tests


def _sites(module: ModuleType) -> Iterator[Site]:
    for site in sites(Path(str(module.__file__)).read_text("utf-8")):
        try:
            function_of(module, site.function)
        except LookupError:
            continue
        yield site


# ---- mutants


def _run(module: ModuleType, tests: dict[str, list[str]], processes: int, until: float) -> Outcomes:
    """Outcome by key of every mutant, as far as the time allows."""
    kept = WORK / f"{module.__name__}.json"
    before: Outcomes = json.loads(kept.read_text("utf-8")) if kept.exists() else {}
    all_sites = {site.key: site for site in _sites(module)}
    source = Path(str(module.__file__)).read_text("utf-8")
    outcomes: Outcomes = {}
    for key, site in all_sites.items():
        its_tests = tests.get(f"{module.__name__}:{site.function}", [])
        digest = _digest(source, *(_text_of(test) for test in sorted(its_tests)))
        old = before.get(key, {})
        # More tests may kill more, so only a change of the module itself brings a killed one back.
        same = old.get("digest") == digest or (
            old.get("outcome") == "killed" and old.get("source") == _digest(source)
        )
        outcomes[key] = {"line": site.line, "digest": digest, "source": _digest(source)}
        if same and "outcome" in old:
            outcomes[key]["outcome"] = old["outcome"]
    jobs = (
        (key, _work(module, site, tests.get(f"{module.__name__}:{site.function}", [])), TIMEOUT_S)
        for key, site in all_sites.items()
        if "outcome" not in outcomes[key] and time.monotonic() < until
    )
    for key, ended in run_all(jobs, processes):
        outcomes[key]["outcome"] = _outcome(ended)
        kept.write_text(json.dumps(outcomes, indent=1, ensure_ascii=False), "utf-8")
    kept.write_text(json.dumps(outcomes, indent=1, ensure_ascii=False), "utf-8")
    return outcomes


def _work(module: ModuleType, site: Site, tests: list[str]) -> Callable[[], int]:
    def work() -> int:
        if not tests:
            return 0
        load_profile()
        plant(module, site.function, site.tree)
        for chosen in (tests[:QUICK_TESTS], *_by_file(module, tests[QUICK_TESTS:])):
            status = int(pytest.main([*OPTIONS, "-x", "--timeout=20", *chosen]))
            if status:
                return status
        return 0

    return work


def _by_file(module: ModuleType, tests: list[str]) -> list[list[str]]:
    """File by file, since collecting costs more than most tests; the module's own first, then those with few tests."""
    files: dict[str, list[str]] = {}
    for test in tests:
        files.setdefault(test.partition("::")[0], []).append(test)
    own = f"test_{module.__name__.rpartition('.')[2]}"
    order = sorted(files, key=lambda file: (own not in file, "/core/" not in file, len(files[file])))
    return [files[file] for file in order]


def _outcome(ended: Ended) -> str:
    if ended.status is None:
        return "timeout"
    return {0: "survived", 1: "killed"}.get(
        ended.status, "killed" if ended.status < 0 else f"error {ended.status}"
    )


def _text_of(test: str) -> str:
    return (ROOT / test.partition("::")[0]).read_text("utf-8")


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]


# ---- what it says


def _report(module: ModuleType, outcomes: Outcomes) -> int:
    """Print the survivors that are not explained, write the counts; the number of those survivors."""
    explained = explanations().get(module.__name__, {})
    survived = {key: each for key, each in outcomes.items() if each.get("outcome") in ("survived", "timeout")}
    open_ones = [key for key in survived if key not in explained]
    tried = [each for each in outcomes.values() if "outcome" in each]
    killed = sum(each["outcome"] == "killed" for each in tried)
    print(
        f"{module.__name__}: {len(tried)} of {len(outcomes)} tried, {killed} killed, {len(open_ones)} to explain"
    )
    for key in open_ones:
        outcome, line = survived[key]["outcome"], survived[key]["line"]
        print(f"  {outcome}: {module.__name__.replace('.', '/')}.py:{line}  {key}")
    for key, each in outcomes.items():
        if str(each.get("outcome", "")).startswith("error"):
            print(f"  {each['outcome']}: {key}", file=sys.stderr)
    row = {
        "mutants": len(tried),
        "killed": killed,
        "survivors explained": len(survived) - len(open_ones),
        "survivors to explain": len(open_ones),
    }
    write_summary(module.__name__, row)
    return len(open_ones)


def explanations() -> dict[str, dict[str, str]]:
    """Module → mutant → why nothing can notice it."""
    return tomllib.loads(EXPLAINED.read_text("utf-8"))


def write_summary(module: str, row: Mapping[str, int]) -> None:
    """Next to those of other modules, unless these were found on other code."""
    rows: Rows = {}
    if SUMMARY.exists() and (found := Measurement.load(SUMMARY)).fingerprint == fingerprint("mutants"):
        rows = found.rows
    Measurement.now("mutants", dict(sorted({**rows, module: row}.items()))).save(SUMMARY)


if __name__ == "__main__":
    raise SystemExit(main())
