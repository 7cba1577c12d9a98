"""A wrong value of any option, and a combination that is impossible: one sentence, exit code 2, nothing changed."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

import pytest
import typer.main

from dlog.cli.main import app
from dlog.local.embedded import Standalone
from tests.helpers.processes.command import Command

pytestmark = pytest.mark.integration

LOG = "wrong"
LIMIT = str(2**63)
FOREVER = ("1", "-d", "inf")

WRONG: dict[str, dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]]] = {
    # command: option: [(what is written, parts of the sentence)]
    "standalone": {
        "--bookies": [(("0",), ("--bookies",)), (("65",), ("--bookies",)), (("x",), ("--bookies",))],
        "--data": [
            (("",), ("--data is empty", "leave the option out")),
            (("README.md",), ("--data README.md is a file", "give a directory")),
            (("x" * 300,), (f"--data {'x' * 300} cannot be a directory: File name too long",)),
        ],
        "--metadata": [(("nonsense",), ("'nonsense'", "scheme:rest"))],
    },
    "demo": {"--metadata": [(("nonsense",), ("'nonsense'", "scheme:rest"))]},
    "gc": {"--age": [(("-1",), ("--age",)), (("nan",), ("--age",)), (("x",), ("--age",))]},
    "top": {
        "--interval": [
            (("0", "-n", "1"), ("--interval must be positive",)),
            (("nan", "-n", "1"), ("--interval must be positive",)),
            (("inf", "-n", "1"), ("at most 86400",)),
            (("1e20", "-n", "1"), ("at most 86400",)),
        ],
        "-n": [(("0",), ("-n",)), (("x",), ("-n",))],
    },
    "append": {
        "--format": [(("xml",), ("--format", "csv"))],
        "--key": [(("k", "-K", ":"), ("--key is the key of every message",))],
        "--key-delimiter": [
            (("",), ("--key-delimiter is empty",)),
            ((":", "--format", "csv"), ("needs --format lines",)),
        ],
        "--key-column": [(("a",), ("--key-column needs --format csv or jsonl",))],
        "--payload-column": [(("a",), ("--payload-column needs --format csv",))],
        "--columns": [(("json",), ("--columns needs --format csv",)), (("x",), ("--columns", "headers"))],
        "--header": [(("a",), ("--header 'a' is not NAME=VALUE",)), (("=v",), ("is not NAME=VALUE",))],
        "--codec": [(("gzip",), ("--codec", "none", "zstd", "lz4")), (("ZSTD",), ("--codec",))],
        "--wait-for-owner": [(("-1",), ("--wait-for-owner",)), (("nan",), ("--wait-for-owner",))],
        "--given-up": [(("-1",), ("--given-up",)), (("first",), ("--given-up",))],
        "--producer": [(("a/b",), ("name 'a/b' is not valid",)), (("",), ("name '' is not valid",))],
        "--timeout": [
            (("0",), ("--timeout must be a positive number of seconds, got 0",)),
            (("nan",), ("--timeout must be a positive number of seconds, got nan",)),
            (("inf",), ("--timeout must be a positive number of seconds, got inf",)),
        ],
    },
    "delete": {
        "--given-up": [(("-1",), ("--given-up",)), (("first",), ("--given-up",))],
    },
    "read": {
        "--on-data-loss": [(("skip",), ("--on-data-loss", "fail", "gap"))],
        "--from": [
            (("yesterday",), ("'yesterday' is no position",)),
            (("",), ("'' is no position",)),
            (("\u0661:\u0662:\u0663",), ("is no position",)),
            (("\uff11m",), ("is no position",)),
            (("999999:0:0",), ("999999:0:0 is above the tail of log", "use an id up to that")),
            (("1h", "--until", "2h"), ("--until 2h is before --from 1h",)),
            (("2013-01-05", "--until", "2012-01-05"), ("--until 2012-01-05 is before --from 2013-01-05",)),
            (("latest", "--until", "1h"), ("--until 1h is before --from latest",)),
            (("latest", "--until", "0:0:1"), ("--until 0:0:1 is before --from latest",)),
            (("9:0:0", "--until", "1:0:0"), ("--until 1:0:0 is before --from 9:0:0",)),
        ],
        "--until": [
            (("tomorrow",), ("'tomorrow' is no position",)),
            (("earliest", "--from", "0:0:1"), ("--until earliest is before --from 0:0:1",)),
            (("earliest", "--from", "1h"), ("--until earliest is before --from 1h",)),
        ],
        "--cursor": [(("a/b",), ("name 'a/b' is not valid",)), (("",), ("name '' is not valid",))],
        "--limit": [(("-1",), ("--limit",)), (("x",), ("--limit",))],
        "--output": [(("xml",), ("--output", "json"))],
        "--key-delimiter": [((":",), ("--key-delimiter needs -o raw",)), (("", "-o", "raw"), ("is empty",))],
    },
    "export": {
        "--to": [(("xml",), ("--to", "jsonl"))],
        "--on-data-loss": [(("skip",), ("--on-data-loss", "fail", "gap"))],
        "--from": [
            (("yesterday",), ("'yesterday' is no position",)),
            (("999999:0:0",), ("999999:0:0 is above the tail of log", "use an id up to that")),
            (("1h", "--until", "2h"), ("--until 2h is before --from 1h",)),
        ],
        "--until": [
            (("tomorrow",), ("'tomorrow' is no position",)),
            (("earliest", "--from", "1h"), ("--until earliest is before --from 1h",)),
        ],
    },
    "tail": {
        "--on-data-loss": [(("skip",), ("--on-data-loss", "fail", "gap"))],
        "--lines": [(("-1",), ("--lines",)), (("x",), ("--lines",))],
        "--output": [(("xml",), ("--output", "json"))],
        "--key-delimiter": [((":",), ("--key-delimiter needs -o raw",))],
    },
    "retention": {
        "--max-age": [
            (("week",), ("--max-age must be a time like 90s",)),
            (("0s",), ("--max-age must be positive",)),
            (("999999999d",), ("1,000 years",)),
        ],
        "--max-bytes": [
            (("10 GB",), ("--max-bytes must be a size like",)),
            (("0.4",), ("--max-bytes must be positive",)),
            (("999999999PB",), ("--max-bytes must be at most 9223372036854775807",)),
        ],
        "--max-messages": [
            (("0",), ("--max-messages must be positive",)),
            ((LIMIT,), ("--max-messages must be at most 9223372036854775807",)),
            (("1", "--forever"), ("--forever keeps everything",)),
        ],
    },
}
EVERYWHERE = {
    "--metadata": [(("nonsense",), ("'nonsense'", "scheme:rest"))],
    "--namespace": [(("a/b",), ("name 'a/b' is not valid",)), (("",), ("name '' is not valid",))],
    "--output": [(("xml",), ("--output", "json"))],
}
ARGUMENTS = {
    "cursor rm": (LOG, "c"),
    "cursor set": (LOG, "c", "earliest"),
    "delete": (LOG, "--yes"),
    "explain": (LOG, "0:0:0"),
    "export": (LOG, "--to", "csv", "-"),
    "shrink": (LOG, "0:0:0"),
    **dict.fromkeys(("demo", "gc", "ls", "standalone", "top"), ()),
}
WRONG_ARGUMENTS: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    (("append", LOG, ""), ("FILE is empty", "- for stdin")),
    (("export", LOG, "--to", "csv", ""), ("FILE is empty", "- for stdout")),
    (("cursor", "set", LOG, "c", "latest "), ("'latest ' is no position",)),
    (("cursor", "set", LOG, "c", "999999:0:0"), ("is above the tail of log", "use an id up to that")),
    (("cursor", "set", LOG, "a/b", "latest"), ("name 'a/b' is not valid",)),
    (("cursor", "rm", LOG, "a/b"), ("name 'a/b' is not valid",)),
    (("explain", LOG, "x"), ("message id 'x' is not valid",)),
    (("explain", LOG, "999999:0:0"), ("is not of this log, since the last ledger of the log is",)),
    (("explain", "wrong-empty", "0:0:0"), ("is not of this log, since the log has no ledger yet",)),
    (("shrink", LOG, "x"), ("message id 'x' is not valid",)),
    (("shrink", LOG, "\u0661:\u0662:\u0663"), ("is not valid",)),
    (("shrink", LOG, "999999:0:0"), ("the highest id allowed now is",)),
    (("properties", LOG, "a"), ("must have the form NAME=VALUE, got 'a'",)),
    (("properties", LOG, "a=1", "a=2"), ("property 'a' is given twice",)),
    (("properties", LOG, "a=", "a=1"), ("property 'a' is given twice",)),
    (("create", "a/b"), ("name 'a/b' is not valid",)),
    (("create", LOG), ("already exists", "another name")),
]


def commands() -> dict[str, Any]:
    found: dict[str, Any] = dict(typer.main.get_group(app).commands)
    for name, command in list(found.items()):
        below = getattr(command, "commands", None)
        if below is not None:
            del found[name]
            found |= {f"{name} {other}": it for other, it in below.items()}
    return found


def options_with_a_value() -> list[tuple[str, str]]:
    return [
        (name, next((text for text in parameter.opts if text.startswith("--")), parameter.opts[0]))
        for name, command in commands().items()
        for parameter in command.params
        if parameter.param_type_name == "option" and not parameter.is_flag and parameter.name != "help"
    ]


def cases() -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    found = list(WRONG_ARGUMENTS)
    for name, option in options_with_a_value():
        for written, parts in WRONG.get(name, {}).get(option) or EVERYWHERE[option]:
            arguments = (*name.split(), *ARGUMENTS.get(name, (LOG,)), option, *written)
            found.append((arguments, parts))
    return found


def stored(cluster: Standalone) -> list[tuple[str, bytes, int]]:
    """Everything in the metadata store."""
    with closing(sqlite3.connect(cluster.uri.removeprefix("sqlite:///"))) as database:
        return database.execute("SELECT key, value, version FROM nodes ORDER BY key").fetchall()


@pytest.fixture(scope="module")
def log(cluster: Standalone) -> Command:
    """A cluster with a log of two ledgers, and one without any."""
    dlog = Command(cluster.uri)
    dlog("append", LOG, "--create", stdin=b"a\nb\n").must_succeed()
    dlog("append", LOG, stdin=b"c\n").must_succeed()
    dlog("create", "wrong-empty").must_succeed()
    return dlog


def test_every_option_that_takes_a_value_has_a_wrong_one() -> None:
    options = options_with_a_value()
    assert len(options) > 60
    assert [each for each in options if each[1] not in {**EVERYWHERE, **WRONG.get(each[0], {})}] == []
    assert [
        (name, option) for name, its in WRONG.items() for option in its if (name, option) not in options
    ] == []


@pytest.mark.parametrize(("arguments", "parts"), cases(), ids=lambda value: " ".join(value)[:60])
def test_it_is_refused_with_a_sentence_and_changes_nothing(
    log: Command, cluster: Standalone, arguments: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    before = stored(cluster)
    result = log.here(*arguments)
    assert result.code == 2, (result.code, result.out, result.err)
    sentence = result.err.rstrip("\n").splitlines()[-1]
    assert sentence.startswith(("dlog: ", "Error: ")), result.err
    assert [part for part in parts if part not in sentence] == [], sentence
    assert "Traceback" not in result.err
    assert stored(cluster) == before


# ---- values that are large, and fine


def test_a_number_of_messages_may_be_larger_than_a_log_can_have(log: Command) -> None:
    assert log.here("read", LOG, "-n", "9" * 30, "-o", "raw").must_succeed() == "a\nb\nc\n"
    assert log.here("tail", LOG, "-n", "9" * 30, "-o", "raw").must_succeed() == "a\nb\nc\n"


def test_a_time_before_the_log_is_where_it_begins(log: Command) -> None:
    for start in ("999999999d", "0001-01-01"):
        assert log.here("read", LOG, "--from", start, "-o", "raw").must_succeed() == "a\nb\nc\n"
    first = log.here("read", LOG, "-n", "1").must_succeed().split("\t")[0]
    for position in ("999999999d", "0001-01-01"):
        assert log.here("cursor", "set", LOG, "old", position).must_succeed().endswith(f"is at {first}\n")
    log.here("cursor", "rm", LOG, "old").must_succeed()


def test_a_read_ends_at_the_tail_and_waits_for_nothing(log: Command) -> None:
    """An end above the tail is the tail, also in the future and in the log's newest ledger; a start there is wrong."""
    tail = json.loads(log.here("info", LOG, "-o", "json").must_succeed())["next"]
    ledger, entry, _ = map(int, tail.split(":"))
    beyond = f"{ledger}:{entry + 1}:0"
    for more in (
        (),
        ("--until", "9999-12-31"),
        ("--until", "latest"),
        ("--until", f"{ledger}:{entry + 2}:0"),
    ):
        log.here("read", LOG, "--from", beyond, *more).must_fail(2, f"position {beyond} is above the tail")
    log.here("export", LOG, "--to", "csv", "--from", beyond, "-").must_fail(
        2, f"position {beyond} is above the tail"
    )
    for until in (tail, beyond, "999999:0:0", "9999-12-31"):
        assert log.here("read", LOG, "--until", until, "-o", "raw").must_succeed() == "a\nb\nc\n"
    assert log.here("read", LOG, "--from", tail).must_succeed() == ""
    assert log.here("read", LOG, "--from", "latest", "--until", "9999-12-31").must_succeed() == ""
    assert log.here("read", LOG, "--from", "latest", "--until", tail).must_succeed() == ""
