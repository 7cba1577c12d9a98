"""`dlog properties` on a real cluster."""

from __future__ import annotations

import json

import pytest

from tests.helpers.processes.command import Command

pytestmark = pytest.mark.integration


def test_properties_are_shown_set_and_removed(dlog: Command) -> None:
    dlog.here("create", "described").must_succeed()
    assert dlog.here("properties", "described").must_succeed() == ""
    printed = dlog.here("properties", "described", "team=billing", "schema=flights=3").must_succeed()
    assert printed == "schema  flights=3\nteam    billing\n"
    dlog.here("properties", "described", "team=").must_succeed()
    assert dlog("properties", "described", "lines=a\nb").must_succeed().startswith("lines   a\\nb\n")
    dlog.here("properties", "described", "lines=").must_succeed()
    assert json.loads(dlog.here("properties", "described", "-o", "json").must_succeed()) == {
        "schema": "flights=3"
    }
    dlog.here("properties", "described", "team").must_fail(2, "must have the form NAME=VALUE, got 'team'")
    dlog.here("properties", "described", "=x").must_fail(2, "must have the form NAME=VALUE, got '=x'")
    dlog.here("properties", "described", "big=" + "x" * 40_000).must_fail(2, "the limit is 32768")
    dlog.here("properties", "absent", "a=b").must_fail(1, "log default/absent does not exist")
    assert json.loads(dlog.here("properties", "described", "-o", "json").must_succeed()) == {
        "schema": "flights=3"
    }


def test_what_the_output_cannot_encode_is_escaped(dlog: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON stays JSON."""
    dlog.here("create", "encoded").must_succeed()
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    assert dlog("properties", "encoded", "city=Zürich").must_succeed() == "city  Z\\xfcrich\n"
    assert json.loads(dlog("properties", "encoded", "-o", "json").must_succeed()) == {"city": "Zürich"}
