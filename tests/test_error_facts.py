"""The tree of errors: facts are declared for type checkers, and every class can be copied."""

from __future__ import annotations

import ast
import copy
import importlib
import inspect
import pickle
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from ledger.errors import LogStoreError, MissingExtraError
from spark_connector.errors import SparkSourceError
from tests.helpers.error_tree import ELSEWHERE, HOMES, PACKAGES, error_tree
from tests.helpers.repository import ROOT

ERRORS: dict[str, type[LogStoreError]] = {
    name: value
    for home in HOMES
    for name, value in vars(importlib.import_module(home)).items()
    if inspect.isclass(value) and issubclass(value, LogStoreError)
}


def declared(error: type[LogStoreError]) -> set[str]:
    return {name for base in error.__mro__ for name in vars(base).get("__annotations__", {})}


@cache
def made_in() -> list[tuple[str, str, set[str | None]]]:
    """Place, error and facts of every place that makes one of our errors; None is for those of a mapping."""
    found = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ERRORS:
                    place = f"{path.relative_to(ROOT)}:{node.lineno}"
                    found.append((place, node.func.id, {keyword.arg for keyword in node.keywords}))
    return found


@cache
def given() -> list[tuple[str, str, str]]:
    """Place, error and fact of every keyword passed to one of our errors."""
    return [(place, name, fact) for place, name, facts in made_in() for fact in facts if fact]


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


def test_a_fact_without_a_default_is_given_everywhere() -> None:
    """Else asking for it would raise AttributeError."""
    needed = {
        name: {fact for fact in declared(kind) if not hasattr(kind, fact)} for name, kind in ERRORS.items()
    }
    needed["MissingExtraError"] = set()  # it makes its own
    assert [made for made in made_in() if None not in made[2] and needed[made[1]] - made[2]] == []


@pytest.mark.parametrize("name", sorted(ERRORS))
def test_an_unknown_fact_is_none(name: str) -> None:
    """Optional facts have a default on the class, so that asking for one never raises AttributeError."""
    for fact, kind in vars(ERRORS[name]).get("__annotations__", {}).items():
        assert not str(kind).endswith("| None") or getattr(ERRORS[name], fact) is None


TREE = error_tree()


def made(kind: type[LogStoreError]) -> LogStoreError:
    if kind is MissingExtraError:
        return MissingExtraError("the dlog command", "typer", "cli")
    if kind is SparkSourceError:
        return SparkSourceError("DLOG_FAILED", "what happened")
    return kind("what happened", **{fact: f"the {fact}" for fact in declared(kind)})


def test_every_module_with_errors_is_known() -> None:
    defining = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        # One that derives from Exception itself is internal and never reaches a program.
        if re.search(r"^class _?\w+Error\((?!Exception\))", path.read_text("utf-8"), re.MULTILINE)
        and not path.is_relative_to(ROOT / "dlog" / "testing")
    }
    assert defining == {*HOMES, *ELSEWHERE}


@pytest.mark.parametrize("kind", TREE, ids=lambda kind: kind.__name__)
def test_a_copy_has_type_text_facts_notes_and_cause_and_no_traceback(kind: type[LogStoreError]) -> None:
    error, cause = made(kind), OSError("of the system")
    error.add_note("and another")
    try:
        raise error from cause
    except LogStoreError as raised:
        copied = raised.copy()
    assert type(copied) is kind
    assert copied is not error
    assert (str(copied), copied.args, copied.facts) == (str(error), error.args, error.facts)
    assert vars(copied) == vars(error)
    assert copied.__cause__ is error.__cause__
    assert (copied.__traceback__, copied.__context__) == (None, None)


def test_a_note_on_a_copy_is_its_own() -> None:
    error = LogStoreError("what happened")
    error.add_note("first")
    error.copy().add_note("second")
    assert error.__notes__ == ["first"]


COPIES: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda error: pickle.loads(pickle.dumps(error)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("kind", TREE, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("how", COPIES)
def test_another_process_gets_type_text_facts_and_notes(kind: type[LogStoreError], how: str) -> None:
    """`multiprocessing` and `concurrent.futures` pickle what a worker raises."""
    error = made(kind)
    error.add_note("and another")
    copied = COPIES[how](error)
    assert type(copied) is kind
    assert (str(copied), copied.args, copied.facts) == (str(error), error.args, error.facts)
    assert copied.__notes__ == error.__notes__
    assert all(getattr(copied, name) == value for name, value in error.facts.items())
    assert str(copied.__cause__) == str(error.__cause__)
