"""Keys, headers, tombstones and compressed input, from the command line to the log and back."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.helpers.processes.command import Command

pytestmark = pytest.mark.integration


def read(dlog: Command, log: str, *options: str) -> bytes:
    with dlog.start("read", log, *options) as process:
        out, _ = process.communicate()
    assert process.returncode == 0
    return out


def test_a_log_is_copied_message_by_message(dlog: Command) -> None:
    dlog("append", "parts", "--create", "-K", r"\t", "-Z", stdin=b"a\tone\nb\t\n\xff\t\xfe\n").must_succeed()
    dlog("append", "parts", "--key", "c", "--header", "n=1", "--header", "n=", stdin=b"x\n").must_succeed()
    printed = read(dlog, "parts", "-o", "json")
    dlog("append", "copied", "--create", "--format", "messages", stdin=printed).must_succeed()
    assert read(dlog, "copied", "-o", "raw", "-K", "=>") == b"a=>one\nb=>\n\xff=>\xfe\nc=>x\n"
    rows = [json.loads(line) for line in read(dlog, "copied", "-o", "json").splitlines()]
    originals = [json.loads(line) for line in printed.splitlines()]
    for row in (*rows, *originals):
        del row["id"], row["time"]
    assert rows == originals
    assert rows[1] == {"key": "b", "payload": None}
    assert rows[3]["headers"] == [{"key": "n", "value": "1"}, {"key": "n", "value": ""}]
    assert read(dlog, "copied").splitlines()[3].split(b"\t")[1:] == [b"c", b"x", b"n=1", b"n="]


def test_a_compressed_csv_file_becomes_json(dlog: Command, tmp_path: Path) -> None:
    file = tmp_path / "in.csv.gz"
    file.write_bytes(gzip.compress(b"day,carrier\n1,AA\n") + gzip.compress(b"2,UA\n"))
    options = ("--create", "--format", "csv", "--columns", "json", "--key-column", "carrier")
    dlog("append", "json", str(file), *options).must_succeed()
    dlog("append", "json", "-", *options, "--gzip", stdin=file.read_bytes()).must_succeed()
    expected = [b'AA:{"day": "1", "carrier": "AA"}', b'UA:{"day": "2", "carrier": "UA"}'] * 2
    assert read(dlog, "json", "-o", "raw", "-K", ":").splitlines() == expected


@pytest.mark.parametrize(
    ("arguments", "stdin", "sentence"),
    [
        (("--gzip",), b"plain", "the input is not gzip, or is damaged"),
        (("-K", ":"), b"none\n", "line 1 of the input has no key"),
    ],
)
def test_wrong_input_is_one_sentence(
    dlog: Command, arguments: tuple[str, ...], stdin: bytes, sentence: str
) -> None:
    dlog("append", "wrong", "--create", *arguments, stdin=stdin).must_fail(1, sentence)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--header", "x"), "--header 'x' is not NAME=VALUE"),
        (("--header", "=x"), "--header '=x' is not NAME=VALUE"),
        (("-K", ""), "--key-delimiter is empty"),
        (("--columns", "json"), "--columns needs --format csv, not lines"),
    ],
)
def test_wrong_options_are_one_sentence(dlog: Command, arguments: tuple[str, ...], sentence: str) -> None:
    dlog.here("append", "wrong", "--create", *arguments).must_fail(2, sentence)


def test_more_headers_than_a_message_can_have_are_refused(dlog: Command, tmp_path: Path) -> None:
    """Of a file before the takeover: the log is not even created."""
    header = ",".join(f"c{number}" for number in range(2000)).encode()
    options = ("--create", "--format", "csv", "--columns", "headers")
    sentence = "the CSV header has 2000 columns that become headers, a message has at most 1000"
    file = tmp_path / "many.csv"
    file.write_bytes(header + b"\n" + header + b"\n")
    dlog("append", "many", *options, str(file)).must_fail(2, sentence)
    assert "many" not in dlog("ls").must_succeed().split()
    dlog("append", "many", *options, stdin=file.read_bytes()).must_fail(1, sentence)


def test_the_delimiter_of_read_needs_raw_output(dlog: Command) -> None:
    for command in ("read", "tail"):
        dlog.here(command, "text", "-K", ":").must_fail(2, "--key-delimiter needs -o raw")
