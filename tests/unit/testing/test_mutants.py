"""The tool that plants operator mutants: what it changes, that the change takes effect, what it explains."""

from __future__ import annotations

import importlib
import sys
import textwrap
from pathlib import Path

import pytest

from ledger.core import quorum
from tests.helpers.mutants.__main__ import explanations
from tests.helpers.mutants.children import run_all
from tests.helpers.mutants.operators import sites
from tests.helpers.mutants.planting import function_of, plant

SOURCE = '''
def decide(first: int = 1, *, last: int) -> bool:
    """Not touched: 1 < 2."""
    assert first < 9
    if not first <= last and min(first, 3):
        notice(f"{first + 1}")
        raise ValueError(first - 1)
    return True


class Holder:
    async def wait(self) -> int:
        await self.done
        self.count += 1
        return self.count
'''


def changes(source: str) -> set[str]:
    return {site.key for site in sites(textwrap.dedent(source))}


def test_each_operator_is_changed_once() -> None:
    assert changes(SOURCE) == {
        "decide: not first <= last and min(first, 3) → not first <= last or min(first, 3)",
        "decide: not first <= last → first <= last",
        "decide: first <= last → first < last",
        "decide: min(first, 3) → max(first, 3)",
        "decide: 3 → 4",
        "decide: notice(f'{first + 1}') → pass",
        "decide: True → False",
        "Holder.wait: await self.done → pass",
        "Holder.wait: await self.done → self.done",
        "Holder.wait: self.count += 1 → self.count -= 1",
        "Holder.wait: 1 → 2",
        "Holder.wait: return self.count → return None",
    }


def test_what_is_changed_alike_twice_has_two_names() -> None:
    assert changes("def f(a, b):\n    return [a < b, a < b]") >= {"f: a < b → a <= b", "f: a < b → a <= b #1"}


def test_a_planted_change_takes_effect_in_a_child_alone() -> None:
    """And a child that hangs is ended."""
    [site] = [
        each
        for each in sites(Path(str(quorum.__file__)).read_text())
        if each.key.startswith("trailing_ones: return")
    ]

    def planted() -> int:
        plant(quorum, site.function, site.tree)
        return 0 if quorum.trailing_ones(7) is None else 1  # type: ignore[comparison-overlap]

    def hangs() -> int:
        while True:
            pass

    ended = dict(run_all([("planted", planted, 30.0), ("hangs", hangs, 0.5)], 2))
    assert ended["planted"].status == 0
    assert ended["hangs"].status is None
    assert quorum.trailing_ones(7) == 3


def test_a_name_that_is_no_function_is_refused() -> None:
    with pytest.raises(LookupError):
        function_of(sys.modules[__name__], "SOURCE")


def test_every_explanation_is_of_a_change_that_there_is() -> None:
    for module, reasons in explanations().items():
        found = {site.key for site in sites(Path(str(importlib.import_module(module).__file__)).read_text())}
        assert set(reasons) <= found
        assert all(len(reason) > 20 for reason in reasons.values())
