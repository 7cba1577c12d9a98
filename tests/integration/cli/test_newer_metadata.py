"""Metadata of a log that a newer release has written: every command refuses it with a sentence and changes nothing.

And a log whose record is of another cluster, as Apache's `metaformat` leaves it.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
import typer.main

from dlog.cli.main import app
from dlog.format.log_metadata import decode_record, encode_record
from dlog.local.embedded import Standalone
from tests.helpers.processes.command import Command

pytestmark = pytest.mark.integration

HERE = ("--namespace", "newer")

COMMANDS: dict[str, tuple[str, ...]] = {
    # each command with a log: its arguments after the log's name
    "append": (),
    "cursor ls": (),
    "cursor rm": ("c",),
    "cursor set": ("c", "earliest"),
    "delete": ("--yes",),
    "explain": ("0:0:0",),
    "export": ("-", "--to", "jsonl"),
    "history": (),
    "info": (),
    "ledgers": (),
    "properties": (),
    "read": (),
    "retention": (),
    "rotate": (),
    "seal": (),
    "shrink": ("0:0:0",),
    "tail": (),
    "verify": (),
}
MORE: list[tuple[str, ...]] = [
    ("append", "--create"),
    ("append", "--wait-for-owner", "1"),
    ("info", "--watch"),
    ("properties", "a=b"),
    ("read", "--cursor", "c"),
    ("read", "--from", "1h"),
    ("read", "--until", "0:0:1"),
    ("retention", "--max-bytes", "1"),
    ("retention", "--max-bytes", "1", "--dry-run"),
    ("retention", "--forever"),
    ("rotate", "--force"),
    ("tail", "-f"),
]
WITHOUT_RECORD = [
    ("cursor", "ls"),
    ("cursor", "rm", "c"),
    ("properties",),
    ("properties", "a=b"),
    ("retention",),
    ("retention", "--forever"),
]
"""What they show and change has keys of its own (docs/log-semantics.md#rule-1)."""
OF_ALL = [(*name.split(), *its) for name, its in COMMANDS.items()] + MORE


def arguments(written: tuple[str, ...], log: str) -> tuple[str, ...]:
    """The command with the log's name after its own."""
    words = 2 if written[0] == "cursor" else 1
    return (*written[:words], log, *written[words:], *HERE)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """Of its own, since damaged logs stay in it."""
    with Standalone(tmp_path_factory.mktemp("newer")) as running:
        yield running


def database(cluster: Standalone) -> sqlite3.Connection:
    return sqlite3.connect(cluster.uri.removeprefix("sqlite:///"))


def stored(cluster: Standalone) -> list[tuple[str, bytes, int]]:
    with closing(database(cluster)) as connection:
        return connection.execute("SELECT key, value, version FROM nodes ORDER BY key").fetchall()


def make_newer(cluster: Standalone, log: str, ending: str) -> tuple[str, str]:
    """The key of the log's value, which now has the next version, and what a refusal says of it."""
    with closing(database(cluster)) as connection, connection:
        keys = [key for (key,) in connection.execute("SELECT key FROM nodes") if f"/newer/{log}" in f"{key}/"]
        [key] = [key for key in keys if key.endswith(ending)]
        [(value,)] = connection.execute("SELECT value FROM nodes WHERE key = ?", (key,)).fetchall()
        version = value[4]
        body = value[:4] + bytes([version + 1]) + value[5:-4]
        changed = body + zlib.crc32(body).to_bytes(4, "big")
        connection.execute("UPDATE nodes SET value = ? WHERE key = ?", (changed, key))
    return key.removeprefix(
        "records"
    ), f"has format version {version + 1}, this release reads versions up to {version}: upgrade dlog"


def restore(cluster: Standalone, key: str) -> None:
    """The value as it was before `make_newer`."""
    with closing(database(cluster)) as connection, connection:
        [(value,)] = connection.execute(
            "SELECT value FROM nodes WHERE key = ?", (f"records{key}",)
        ).fetchall()
        body = value[:4] + bytes([value[4] - 1]) + value[5:-4]
        whole = body + zlib.crc32(body).to_bytes(4, "big")
        connection.execute("UPDATE nodes SET value = ? WHERE key = ?", (whole, f"records{key}"))


def written_log(cluster: Standalone, log: str) -> Command:
    dlog = Command(cluster.uri)
    dlog("append", log, "--create", *HERE, stdin=b"a\nb\n").must_succeed()
    return dlog


def refused(dlog: Command, written: tuple[str, ...], log: str, *parts: str) -> None:
    sentence = dlog.here(*arguments(written, log)).must_fail(1, *parts)
    assert "or set it again" not in sentence and "remove" not in sentence, sentence


def test_every_command_with_a_log_is_tried() -> None:
    found = dict(typer.main.get_group(app).commands)
    found |= {f"cursor {name}": command for name, command in found.pop("cursor").commands.items()}  # type: ignore[attr-defined]  # a group
    taking = {
        name
        for name, command in found.items()
        if any(parameter.name == "log" for parameter in command.params)
    }
    assert taking - {"create"} == set(COMMANDS)


@pytest.mark.parametrize(("log", "ending"), [("of-record", "/record"), ("of-name", "/of-name")])
def test_a_newer_log_is_refused_by_every_command(cluster: Standalone, log: str, ending: str) -> None:
    dlog = written_log(cluster, log)
    key, sentence = make_newer(cluster, log, ending)
    before = stored(cluster)
    for written in OF_ALL:
        if "--watch" not in written and not (log == "of-record" and written in WITHOUT_RECORD):
            refused(dlog, written, log, key, sentence)
    dlog("info", log, "--watch", *HERE).must_fail(1, key, sentence)
    collected = dlog.here("gc", "--age", "0", *HERE)
    assert collected.code == 1
    assert sentence in collected.err.splitlines()[-1]
    assert stored(cluster) == before
    restore(cluster, key)
    assert dlog.here("read", log, "-o", "raw", *HERE).must_succeed() == "a\nb\n"
    dlog.here("delete", log, "--yes", *HERE).must_succeed()


@pytest.mark.parametrize(
    ("log", "made_by", "ending", "refused_by"),
    [
        (
            "of-retention",
            ("retention", "--max-messages", "7"),
            "/retention",
            [
                ("retention",),
                ("retention", "--max-bytes", "1"),
                ("retention", "--forever"),
                ("retention", "--max-messages", "7"),
            ],
        ),
        (
            "of-properties",
            ("properties", "team=billing"),
            "/properties",
            [("properties",), ("properties", "team=other"), ("properties", "team=")],
        ),
        (
            "of-cursor",
            ("cursor", "set", "c", "earliest"),
            "/cursors/c",
            [
                ("cursor", "ls"),
                ("cursor", "set", "c", "latest"),
                ("cursor", "rm", "c"),
                ("read", "--cursor", "c"),
                ("retention", "--keep-unread", "--dry-run"),
            ],
        ),
    ],
)
def test_a_newer_value_is_refused_by_the_commands_that_need_it(
    cluster: Standalone, log: str, made_by: tuple[str, ...], ending: str, refused_by: list[tuple[str, ...]]
) -> None:
    dlog = written_log(cluster, log)
    dlog.here(*arguments(made_by, log)).must_succeed()
    key, sentence = make_newer(cluster, log, ending)
    before = stored(cluster)
    for written in refused_by:
        refused(dlog, written, log, key, sentence)
    assert stored(cluster) == before
    assert dlog.here("read", log, "-o", "raw", *HERE).must_succeed() == "a\nb\n"
    dlog("append", log, *HERE, stdin=b"c\n").must_succeed()
    dlog.here("delete", log, "--yes", *HERE).must_succeed()


def test_one_newer_log_does_not_keep_the_others_from_being_shown_and_collected(cluster: Standalone) -> None:
    dlog = written_log(cluster, "readable")
    for _ in range(2):
        dlog("append", "readable", *HERE, stdin=b"x\n").must_succeed()
    dlog.here("retention", "readable", "--max-bytes", "1", *HERE).must_succeed()
    written_log(cluster, "newer-log")
    key, sentence = make_newer(cluster, "newer-log", "/record")
    assert set(dlog.here("ls", *HERE).must_succeed().split()) == {"newer-log", "readable"}
    shown = dlog("top", "-n", "1", "-d", "0.1", *HERE)
    assert (shown.code, shown.err) == (0, "")
    lines = shown.out.splitlines()
    assert [line.split()[:2] for line in lines[3:5]] == [
        ["newer/readable", "active"],
        ["newer/newer-log", "damaged"],
    ]
    assert (
        f"log newer/newer-log: the log metadata under {key} cannot be decoded: log metadata {sentence}"
        in lines
    )
    found = json.loads(dlog("top", "-n", "1", "-d", "0.1", "-o", "json", *HERE).must_succeed())
    assert [(each["log"], each["state"], each["error"] is None) for each in found] == [
        ("newer/readable", "active", True),
        ("newer/newer-log", "damaged", False),
    ]
    assert found[0].keys() == found[1].keys()
    done = dlog.here("gc", *HERE)
    assert done.code == 1
    assert "trimmed readable before" in done.out
    assert sentence in done.err.splitlines()[-1]
    restore(cluster, key)
    dlog.here("gc", *HERE).must_succeed()


def test_gc_names_every_log_that_it_cannot_collect(cluster: Standalone) -> None:
    logs = ["gc-first", "gc-second", "gc-third"]
    for log in logs:
        dlog = written_log(cluster, log)
    keys = [make_newer(cluster, log, "/record")[0] for log in logs]
    printed = dlog.here("gc", *HERE)
    assert printed.code == 1
    lines = printed.err.splitlines()
    assert [sum(key in line for line in lines) for key in keys] == [1, 1, 1]
    assert all(line.startswith("dlog: ") for line in lines)
    for log, key in zip(logs, keys, strict=True):
        restore(cluster, key)
        dlog.here("delete", log, "--yes", *HERE).must_succeed()


def test_gc_that_has_trimmed_a_log_and_meets_one_of_another_cluster_does_not_exit_as_if_nothing_was_done(
    cluster: Standalone,
) -> None:
    dlog = written_log(cluster, "native")
    dlog("append", "native", *HERE, stdin=b"x\n").must_succeed()
    dlog.here("retention", "native", "--max-bytes", "1", *HERE).must_succeed()
    written_log(cluster, "foreign")
    with closing(database(cluster)) as connection, connection:
        [(key, value)] = connection.execute(
            "SELECT key, value FROM nodes WHERE key LIKE '%/newer/foreign/%/record'"
        ).fetchall()
        foreign = encode_record(replace(decode_record(value), instance_id="another"))
        connection.execute("UPDATE nodes SET value = ? WHERE key = ?", (foreign, key))
    done = dlog.here("gc", *HERE)
    assert "trimmed native before" in done.out
    assert (done.code, "belongs to cluster another" in done.err) == (1, True)
    with closing(database(cluster)) as connection, connection:
        connection.execute("UPDATE nodes SET value = ? WHERE key = ?", (value, key))
