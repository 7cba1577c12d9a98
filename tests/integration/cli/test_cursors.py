"""`dlog cursor`, and `dlog read --cursor`, on a real cluster."""

from __future__ import annotations

import json

import pytest

from tests.helpers.processes.command import Command

pytestmark = pytest.mark.integration


def test_a_read_continues_where_the_last_one_ended(dlog: Command) -> None:
    def payloads(*options: str) -> list[str]:
        return (
            dlog.here("read", "jobs", "--cursor", "nightly", "-o", "raw", *options)
            .must_succeed()
            .splitlines()
        )

    dlog("append", "jobs", "--create", stdin=b"a\nb\nc\n").must_succeed()
    assert payloads("-n", "2") == ["a", "b"]
    assert payloads() == ["c"]
    assert payloads() == []
    dlog("append", "jobs", stdin=b"d\n").must_succeed()
    assert payloads() == ["d"]


def test_what_its_reader_has_not_taken_is_read_again(dlog: Command) -> None:
    """`dlog read | head` ends the command before it acknowledges."""
    dlog("append", "pipes", "--create", stdin=b"".join(b"%d\n" % n for n in range(50_000))).must_succeed()
    with dlog.start("read", "pipes", "--cursor", "c", "-o", "raw") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"0\n"
        process.stdout.close()
        process.wait(30)
    assert dlog.here("read", "pipes", "--cursor", "c", "-n", "1", "-o", "raw").must_succeed() == "0\n"


def test_cursors_are_listed_set_and_removed(dlog: Command) -> None:
    dlog.here("create", "steps").must_succeed()
    dlog("append", "steps", stdin=b"a\nb\n").must_succeed()
    dlog.here("rotate", "steps").must_succeed()
    dlog("append", "steps", stdin=b"c\n").must_succeed()
    dlog.here("cursor", "set", "steps", "slow", "earliest").must_succeed()
    dlog.here("cursor", "set", "steps", "fast", "latest").must_succeed()
    slow, fast = json.loads(dlog.here("cursor", "ls", "steps", "-o", "json").must_succeed())[::-1]
    assert (slow["cursor"], slow["properties"]) == ("slow", {})
    assert (slow["messages_behind"], slow["entries_behind"], slow["ledgers_behind"]) == (3, 2, 1)
    assert slow["bytes_behind"] > 3
    assert (fast["cursor"], fast["entries_behind"], fast["ledgers_behind"]) == ("fast", 0, 0)
    header, first, second = dlog.here("cursor", "ls", "steps").must_succeed().splitlines()
    assert header.split("  ")[0] == "cursor"
    assert "messages behind" in header
    assert "bytes behind" in header
    assert first.split()[:2] == ["fast", fast["position"]]
    assert second.split()[:3] == ["slow", slow["position"], "3"]
    printed = dlog.here("cursor", "set", "steps", "fast", slow["position"]).must_succeed()
    assert printed == f"cursor fast of log steps is at {slow['position']}\n"
    assert dlog.here("read", "steps", "--cursor", "fast", "-o", "raw").must_succeed() == "a\nb\nc\n"
    dlog.here("cursor", "set", "steps", "fast", "1h").must_succeed()
    assert dlog.here("read", "steps", "--cursor", "fast", "-o", "raw").must_succeed() == "a\nb\nc\n"
    assert dlog.here("cursor", "rm", "steps", "fast").must_succeed() == "removed cursor fast of log steps\n"
    assert [
        each["cursor"] for each in json.loads(dlog.here("cursor", "ls", "steps", "-o", "json").must_succeed())
    ] == ["slow"]


def test_wrong_cursors_are_refused_with_a_sentence(dlog: Command) -> None:
    dlog("append", "refused", "--create", stdin=b"a\n").must_succeed()
    dlog.here("cursor", "ls", "absent").must_fail(1, "log default/absent does not exist")
    dlog.here("cursor", "set", "absent", "c", "earliest").must_fail(1, "log default/absent does not exist")
    dlog.here("cursor", "set", "refused", "a/b", "earliest").must_fail(2, "name 'a/b' is not valid")
    dlog.here("cursor", "set", "refused", "c", "yesterday").must_fail(2, "'yesterday' is no position")
    dlog.here("cursor", "set", "refused", "c", "999999:0:0").must_fail(2, "999999:0:0 is above the tail")
    dlog.here("read", "refused", "--cursor", "c", "--from", "999999:0:0", "--until", "999999:0:1").must_fail(
        2, "999999:0:0 is above the tail"
    )
    dlog.here("cursor", "rm", "refused", "c").must_fail(1, "log default/refused has no cursor 'c'")
    assert json.loads(dlog.here("cursor", "ls", "refused", "-o", "json").must_succeed()) == []
