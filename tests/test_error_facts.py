"""Facts of errors are declared: what is passed to an error is an attribute that type checkers know."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path

import pytest

from ledger.errors import LogStoreError

ROOT = Path(__file__).parent.parent
HOMES = ("ledger.errors", "dlog.errors", "bookie_server.errors")
PACKAGES = ("ledger", "dlog", "bookie_server", "spark_connector")

ERRORS: dict[str, type[LogStoreError]] = {
    name: value
    for home in HOMES
    for name, value in vars(importlib.import_module(home)).items()
    if inspect.isclass(value) and issubclass(value, LogStoreError)
}


def declared(error: type[LogStoreError]) -> set[str]:
    return {name for base in error.__mro__ for name in vars(base).get("__annotations__", {})}


def given() -> list[tuple[str, str, str]]:
    """Place, error and fact of every keyword passed to one of our errors."""
    found = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ERRORS:
                    place = f"{path.relative_to(ROOT)}:{node.lineno}"
                    found += [(place, node.func.id, keyword.arg) for keyword in node.keywords if keyword.arg]
    return found


def test_every_fact_is_declared() -> None:
    facts = given()
    assert len(facts) > 100
    assert [fact for fact in facts if fact[2] not in declared(ERRORS[fact[1]])] == []


def test_every_declared_fact_is_given_somewhere() -> None:
    facts = {(error, name) for _, error, name in given()}
    idle = [
        (name, fact)
        for name, error in ERRORS.items()
        for fact in vars(error).get("__annotations__", {})
        if (name, fact) not in facts
    ]
    # MissingExtraError makes its own.
    assert [each for each in idle if each[0] != "MissingExtraError"] == []


@pytest.mark.parametrize("name", sorted(ERRORS))
def test_an_unknown_fact_is_none(name: str) -> None:
    """Optional facts have a default on the class, so that asking for one never raises AttributeError."""
    for fact, kind in vars(ERRORS[name]).get("__annotations__", {}).items():
        assert not str(kind).endswith("| None") or getattr(ERRORS[name], fact) is None
