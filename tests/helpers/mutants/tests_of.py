"""Which tests execute which function, and how long each test takes: found by running them once.

Every function of the modules begins with a call that notes it, planted as a mutant is.
"""

from __future__ import annotations

import ast
import builtins
import json
import time
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import Phase, settings

from tests.helpers.mutants.children import run_all
from tests.helpers.mutants.operators import functions
from tests.helpers.mutants.planting import function_of, plant

TIMEOUT_S = 900.0
OPTIONS = ("-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")
"""Plugins are imported before pytest starts in a child, which it warns of."""
_NOTE = "note_that_function_is_called"


def load_profile() -> None:
    """Property tests without shrinking and without chance: they only have to fail."""
    settings.register_profile(
        "mutants",
        derandomize=True,
        database=None,
        deadline=None,
        max_examples=60,
        phases=(Phase.explicit, Phase.generate),
    )
    settings.load_profile("mutants")


class Recorder:
    """A pytest plugin that notes which functions each test calls."""

    def __init__(self) -> None:
        self._called: set[str] = set()
        self.tests: dict[str, list[str]] = {}
        self.seconds: dict[str, float] = {}

    def note(self, function: str) -> None:
        self._called.add(function)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._called.clear()
        began = time.monotonic()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = time.monotonic() - began
            for function in self._called:
                self.tests.setdefault(function, []).append(item.nodeid)


def tests_of(modules: Iterable[ModuleType], paths: Sequence[str], file: Path) -> dict[str, list[str]]:
    """`module:function` → tests that call it, quick ones first. They run in a child; `file` is for its answer."""

    def work() -> int:
        load_profile()
        recorder = Recorder()
        setattr(builtins, _NOTE, recorder.note)
        for module in modules:
            _plant_notes(module)
        status = pytest.main([*OPTIONS, *paths], plugins=[recorder])
        file.write_text(json.dumps([recorder.tests, recorder.seconds]), "utf-8")
        return int(status)

    [(_, ended)] = run_all([("notes", work, TIMEOUT_S)], 1)
    if ended.status != 0:
        raise RuntimeError(f"the tests do not pass without a mutant: status {ended.status}")
    tests, seconds = json.loads(file.read_text("utf-8"))
    return {name: sorted(found, key=lambda test: seconds[test]) for name, found in tests.items()}


def _plant_notes(module: ModuleType) -> None:
    tree = ast.parse(Path(str(module.__file__)).read_text("utf-8"))
    names = []
    for function, name in functions(tree):
        call = ast.Call(ast.Name(_NOTE, ast.Load()), [ast.Constant(f"{module.__name__}:{name}")], [])
        function.body.insert(0, ast.copy_location(ast.Expr(call), function.body[0]))
        names.append(name)
    ast.fix_missing_locations(tree)
    for name in names:
        try:
            function_of(module, name)
        except LookupError:
            continue
        plant(module, name, tree)
