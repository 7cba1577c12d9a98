"""Histories of compare-and-set registers: which have an explanation, and which cannot have one."""

from __future__ import annotations

import pytest

from dlog.testing.checks.registers import c16_registers_are_linearizable
from dlog.testing.metadata.history import CallOutcome, Operation, RegisterCall, RegisterHistory

KEY = "/r"


def call(
    client: str,
    operation: Operation,
    when: tuple[int, int | None],
    outcome: CallOutcome = CallOutcome.DONE,
    *,
    expected: int | None = None,
    version: int | None = None,
    value: bytes | None = None,
) -> RegisterCall:
    if value is None and version is not None:
        value = b"v%d" % version
    return RegisterCall(client, KEY, operation, expected, value, when[0], when[1], outcome, version)


def wrong(*calls: RegisterCall) -> list[str]:
    history = RegisterHistory()
    history.calls += calls
    return list(c16_registers_are_linearizable(history))


CREATED = call("a", "create", (1, 2), version=0)


def write(client: str, when: tuple[int, int | None], version: int) -> RegisterCall:
    return call(client, "write", when, expected=version - 1, version=version)


def read(client: str, when: tuple[int, int | None], version: int) -> RegisterCall:
    return call(client, "read", when, version=version)


def late_create(when: tuple[int, int | None]) -> RegisterCall:
    return call("a", "create", when, CallOutcome.UNKNOWN, value=b"v0")


def unknown(client: str, when: tuple[int, int | None], expected: int, value: bytes) -> RegisterCall:
    return call(client, "write", when, CallOutcome.UNKNOWN, expected=expected, value=value)


@pytest.mark.parametrize(
    "calls",
    [
        [write("a", (3, 6), 1), read("b", (4, 5), 0), read("b", (7, 8), 1)],
        [write("a", (3, 6), 1), read("b", (4, 5), 1)],
        [write("a", (3, 4), 1), call("b", "write", (5, 6), CallOutcome.REFUSED, expected=0, value=b"x")],
        [unknown("a", (3, 4), 0, b"v1"), read("b", (9, 10), 1)],
        [unknown("a", (3, None), 0, b"v1"), read("b", (9, 10), 0), read("b", (11, 12), 1)],
        [
            unknown("a", (3, 4), 0, b"v1"),
            call("b", "write", (5, 6), CallOutcome.REFUSED, expected=0, value=b"x"),
        ],
        [call("a", "create", (3, 4), version=0)],
        [call("b", "remove", (3, 4)), call("a", "read", (5, 6), CallOutcome.ABSENT)],
        [call("b", "write", (3, 4), CallOutcome.NOT_DONE, expected=0, value=b"x")],
        [call("b", "remove", (3, 6), expected=1), write("a", (4, 7), 1)],
        [call("b", "remove", (3, 4), CallOutcome.UNKNOWN, expected=0), write("a", (5, 6), 1)],
        [call("b", "remove", (3, 4), CallOutcome.UNKNOWN), call("c", "remove", (5, 6), expected=0)],
        [unknown("a", (3, 4), 0, b"v1"), call("b", "remove", (5, 6), expected=1)],
        [call("b", "remove", (3, 6)), call("c", "remove", (4, 7), CallOutcome.ABSENT)],
        [call("b", "remove", (3, 6)), read("a", (4, 5), 0)],
        [late_create((1, 2)), call("b", "remove", (3, 4)), read("a", (5, 6), 0)],
        [late_create((1, 2)), call("b", "remove", (3, 4)), call("c", "remove", (5, 6))],
    ],
)
def test_what_can_be_explained_passes(calls: list[RegisterCall]) -> None:
    assert wrong(CREATED, *calls) == []


@pytest.mark.parametrize(
    ("calls", "finding"),
    [
        ([write("a", (3, 4), 1), read("b", (5, 6), 0)], "came after"),
        ([write("a", (3, 4), 1), write("b", (3, 4), 1)], "written twice"),
        ([read("b", (3, 4), 1)], "no client can have written"),
        ([write("a", (5, 6), 1), read("b", (3, 4), 1)], "came after"),
        (
            [write("a", (3, 4), 1), write("a", (5, 6), 2), read("b", (7, 8), 2), read("c", (9, 10), 1)],
            "came after",
        ),
        ([call("b", "read", (3, 4), version=0, value=b"other")], "two values"),
        ([unknown("a", (3, 4), 0, b"mine"), read("b", (5, 6), 1)], "no client can have written"),
        (
            [call("b", "write", (3, 4), CallOutcome.REFUSED, expected=0, value=b"x")],
            "as expected all the time",
        ),
        ([call("b", "read", (3, 4), CallOutcome.ABSENT)], "there all the time"),
        ([call("b", "remove", (3, 4)), read("a", (5, 6), 0)], "removed"),
        ([write("a", (3, 4), 1), call("b", "remove", (5, 6), expected=0)], "removed at version 0"),
        ([call("b", "remove", (3, 4), expected=0), write("a", (5, 6), 1)], "came after"),
        ([call("b", "remove", (3, 4), expected=0), write("a", (3, 6), 1)], "removed at version 0"),
        ([call("b", "remove", (3, 4)), write("a", (5, 6), 1)], "came after"),
        ([call("b", "remove", (3, 4)), call("a", "create", (5, 6), version=0)], "found what had been"),
        ([call("b", "remove", (3, 4)), call("c", "remove", (5, 6))], "removed twice"),
        ([call("b", "remove", (3, 6)), call("c", "remove", (4, 5))], "removed twice"),
        ([late_create((5, 6)), call("b", "remove", (3, 4)), call("c", "remove", (7, 8))], "removed twice"),
        (
            [
                late_create((1, 2)),
                *(call("b", "remove", (when, when + 1), expected=0) for when in (3, 5, 7)),
            ],
            "removed twice",
        ),
        ([call("b", "remove", (3, 4), expected=1)], "which no client can have written"),
        (
            [call("b", "remove", (3, 4)), call("a", "create", (5, 6), CallOutcome.REFUSED, value=b"x")],
            "although the register had been removed",
        ),
        (
            [call("b", "remove", (3, 4), CallOutcome.REFUSED, expected=0)],
            "as expected all the time",
        ),
        (
            [call("b", "write", (3, 4), CallOutcome.NOT_DONE, expected=0, value=b"v1"), read("a", (5, 6), 1)],
            "no client",
        ),
    ],
)
def test_what_cannot_be_explained_is_found(calls: list[RegisterCall], finding: str) -> None:
    found = wrong(CREATED, *calls)
    assert found and finding in found[0]
