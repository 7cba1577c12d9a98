"""`dlog export`: files that other programs read, whole or not there at all."""

from __future__ import annotations

import csv
import errno
import json
import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from dlog.local.embedded import Standalone
from dlog.local.signalling import pause_process
from dlog.model import MessageId
from tests.helpers.processes.command import Command
from tests.helpers.processes.terminal import on_terminal

pytestmark = pytest.mark.integration

FORMATS = ["parquet", "jsonl", "csv"]
MESSAGES = (
    b'{"key": "k", "payload": "one, \\"two\\""}\n'
    b'{"key": null, "payload": null}\n'
    b'{"key": "", "payload": "", "headers": [{"key": "a", "value": "1"}]}\n'
    b'{"payload": "lines\\nand \xc3\xa9"}\n'
)
NOT_TEXT = b'{"key_base64": "/w==", "payload_base64": "/w=="}\n'


@pytest.fixture(scope="module")
def log(cluster: Standalone) -> str:
    Command(cluster.uri)(
        "append", "exported", "--format", "messages", "--create", stdin=MESSAGES
    ).must_succeed()
    return "exported"


def rows_of(file: Path) -> list[dict[str, object]]:
    pytest.importorskip("pyarrow", reason="pyarrow is missing: pip install '.[arrow]'")
    from pyarrow.parquet import read_table

    rows: list[dict[str, object]] = read_table(file).to_pylist()
    return rows


def test_jsonl_is_what_read_prints_and_append_takes(dlog: Command, log: str, tmp_path: Path) -> None:
    dlog("append", "lossless", "--format", "messages", "--create", stdin=MESSAGES + NOT_TEXT).must_succeed()
    file = tmp_path / "log.jsonl"
    said = dlog.here("export", "lossless", "--to", "jsonl", str(file)).must_succeed()
    printed = dlog.here("read", "lossless", "-o", "json").must_succeed()
    assert file.read_text("utf-8") == printed
    last = MessageId.parse(json.loads(printed.splitlines()[-1])["id"])
    behind = MessageId(last.ledger_id, last.entry_id + 1, 0)
    assert said == f"5 messages exported to {file}; continue with --from {behind}\n"
    assert dlog("export", "lossless", "--to", "jsonl", "-").must_succeed() == printed
    dlog("append", "imported", "--format", "messages", "--create", str(file)).must_succeed()

    def contents(name: str) -> list[object]:
        rows = map(json.loads, dlog.here("read", name, "-o", "json").must_succeed().splitlines())
        return [{**row, "id": None, "time": None} for row in rows]

    assert contents("imported") == contents("lossless")


def test_parquet_has_every_column(dlog: Command, log: str, tmp_path: Path) -> None:
    file = tmp_path / "log.parquet"
    dlog.here("export", log, "--to", "parquet", str(file)).must_succeed()
    rows = rows_of(file)
    assert list(rows[0]) == [
        *("log", "message_id", "ledger_id", "entry_id", "batch_index", "key", "value", "publish_time"),
        "headers",
    ]
    assert [(row["key"], row["value"]) for row in rows] == [
        (b"k", b'one, "two"'),
        (None, None),
        (b"", b""),
        (None, "lines\nand é".encode()),
    ]
    assert [row["headers"] for row in rows] == [[], [], [{"key": "a", "value": b"1"}], []]
    ids = [
        json.loads(line)["id"] for line in dlog.here("read", log, "-o", "json").must_succeed().splitlines()
    ]
    assert [str(MessageId.from_bytes(row["message_id"])) for row in rows] == ids  # type: ignore[arg-type]
    with dlog.start("export", log, "--to", "parquet", "-") as process:
        out, err = process.communicate()
    assert (process.returncode, err) == (0, b"")
    (tmp_path / "piped.parquet").write_bytes(out)
    assert rows_of(tmp_path / "piped.parquet") == rows


def test_csv_is_a_table_of_text(dlog: Command, log: str, tmp_path: Path) -> None:
    """Null and empty differ by the quotes, for a program that looks at them."""
    file = tmp_path / "log.csv"
    dlog.here("export", log, "--to", "csv", str(file)).must_succeed()
    with file.open(newline="", encoding="utf-8") as source:
        header, *rows = csv.reader(source)
    assert header == ["id", "time", "key", "payload"]
    assert [row[2:] for row in rows] == [
        ["k", 'one, "two"'],
        ["", ""],
        ["", ""],
        ["", "lines\nand é"],
    ]
    printed = [json.loads(line) for line in dlog.here("read", log, "-o", "json").must_succeed().splitlines()]
    assert [row[:2] for row in rows] == [[row["id"], row["time"]] for row in printed]
    lines = file.read_text("utf-8").splitlines()
    assert lines[2].endswith(",,") and lines[3].endswith(',"",""')
    arguments = ("--format", "csv", "--key-column", "key", "--payload-column", "payload", "--create")
    dlog("append", "from-csv", *arguments, str(file)).must_succeed()
    again = dlog.here("read", "from-csv", "-o", "json").must_succeed().splitlines()
    assert [json.loads(line)["payload"] for line in again] == ['one, "two"', "", "", "lines\nand é"]


def test_bytes_that_are_not_text_are_no_csv(dlog: Command, tmp_path: Path) -> None:
    dlog("append", "bytes", "--format", "messages", "--create", stdin=NOT_TEXT).must_succeed()
    file = tmp_path / "log.csv"
    dlog.here("export", "bytes", "--to", "csv", str(file)).must_fail(
        2, "the key of message", "is not UTF-8", "--to parquet or --to jsonl"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", FORMATS)
def test_an_empty_range_is_a_file_without_rows(dlog: Command, log: str, tmp_path: Path, form: str) -> None:
    file = tmp_path / "empty"
    said = dlog.here("export", log, "--to", form, "--from", "latest", str(file)).must_succeed()
    assert said.startswith(f"0 messages exported to {file}; continue with --from ")
    if form == "parquet":
        assert rows_of(file) == []
    else:
        assert file.read_text() == {"jsonl": "", "csv": "id,time,key,payload\n"}[form]


def test_exports_continue_each_other(dlog: Command, tmp_path: Path) -> None:
    written = b""
    position = "earliest"
    for number in range(3):
        lines = b"".join(b"%d\n" % n for n in range(number * 100, number * 100 + 100))
        dlog("append", "continued", "--create", stdin=lines).must_succeed()
        file = tmp_path / f"{number}.jsonl"
        said = dlog.here("export", "continued", "--to", "jsonl", "--from", position, str(file)).must_succeed()
        position = said.split()[-1]
        written += file.read_bytes()
    assert written.decode() == dlog.here("read", "continued", "-o", "json").must_succeed()
    first = json.loads(written.splitlines()[10])["id"]
    behind = json.loads(written.splitlines()[20])["id"]
    part = dlog("export", "continued", "--to", "jsonl", "--from", first, "--until", behind, "-")
    assert part.must_succeed().encode() == b"".join(written.splitlines(keepends=True)[10:20])


# ---- files


def test_an_existing_file_is_kept_unless_forced(dlog: Command, log: str, tmp_path: Path) -> None:
    """One that is replaced keeps its permissions; a new one has those of the umask."""
    file = tmp_path / "kept.jsonl"
    file.write_text("mine")
    dlog.here("export", log, "--to", "jsonl", str(file)).must_fail(2, f"{file} exists", "--force")
    assert file.read_text() == "mine"
    file.chmod(0o600)
    link = tmp_path / "link"
    link.symlink_to(file)
    dlog.here("export", log, "--to", "jsonl", "--force", str(link)).must_succeed()
    assert file.read_text("utf-8") == dlog.here("read", log, "-o", "json").must_succeed()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and link.is_symlink()
    new = tmp_path / "new.jsonl"
    before = os.umask(0o027)
    try:
        dlog.here("export", log, "--to", "jsonl", "--force", str(new)).must_succeed()
    finally:
        os.umask(before)
    assert stat.S_IMODE(new.stat().st_mode) == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept.jsonl", "link", "new.jsonl"]


def test_what_cannot_be_a_file_is_refused(dlog: Command, log: str, tmp_path: Path) -> None:
    for file, part in (
        (str(tmp_path), "is not a regular file"),
        ("/dev/null", "is not a regular file"),
        (str(tmp_path / "no" / "such" / "file"), "there is no directory"),
        ("", "FILE is empty"),
        (str(tmp_path / ("x" * 250)), "File name too long"),
        (str(tmp_path / ("x" * 300)), "File name too long; pass another name"),
        (str(tmp_path / ("x" * 300) / "file"), "File name too long; pass another name"),
    ):
        dlog.here("export", log, "--to", "jsonl", "--force", file).must_fail(2, part)
    dlog.here("export", "missing", "--to", "csv", str(tmp_path / "out")).must_fail(
        1, "default/missing does not"
    )
    dlog.here("export", log, "--to", "csv", "--from", "soon", str(tmp_path / "out")).must_fail(
        2, "'soon' is no"
    )
    assert list(tmp_path.iterdir()) == []
    assert dlog.here("export", log, str(tmp_path / "out")).code == 2
    assert dlog.here("export", log, "--to", "xml", str(tmp_path / "out")).code == 2


@pytest.mark.parametrize(
    ("error", "code", "last"),
    [
        (KeyboardInterrupt(), 130, "dlog: interrupted"),
        (OSError(errno.EIO, os.strerror(errno.EIO)), 1, "dlog: Input/output error"),
    ],
    ids=["Ctrl-C", "disk"],
)
def test_a_whole_file_is_reported_although_its_name_is_not_synced(
    dlog: Command,
    log: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    code: int,
    last: str,
) -> None:
    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise error

    file = tmp_path / "whole.jsonl"
    for force in ((), ("--force",)):  # a link, a rename
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", fsync)
            found = dlog.here("export", log, "--to", "jsonl", *force, str(file))
        assert found.code == code
        assert found.err.splitlines() == [
            f"dlog: stopped early: 4 messages exported to {file}, which is complete, but perhaps not yet on the disk",
            last,
        ]
        assert file.read_text("utf-8") == dlog.here("read", log, "-o", "json").must_succeed()
        assert list(tmp_path.iterdir()) == [file]


def test_a_directory_that_cannot_be_synced_is_refused(
    dlog: Command, log: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that may be written but not read, for example."""
    system_open = os.open

    def refused(path: str | Path, flags: int, *rest: int) -> int:
        if flags & os.O_DIRECTORY and Path(path) == tmp_path:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return system_open(path, flags, *rest)

    monkeypatch.setattr(os, "open", refused)
    file = tmp_path / "out.jsonl"
    dlog.here("export", log, "--to", "jsonl", str(file)).must_fail(
        2, f"cannot write {file}: its directory cannot be opened to sync it: Permission denied"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def long_log(cluster: Standalone) -> str:
    # Not compressible: a pipe that is not read must fill up in every format.
    choose = Random(1)
    lines = b"".join(b"%s\n" % choose.randbytes(49).hex().encode() for _ in range(50_000))
    Command(cluster.uri)("append", "long-export", "--create", stdin=lines).must_succeed()
    return "long-export"


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_stopped_export_leaves_nothing(
    dlog: Command, long_log: str, tmp_path: Path, form: str, number: signal.Signals, code: int
) -> None:
    """While it writes, there is only a file of another name; a signal removes that, and says so."""
    file = tmp_path / "stopped"
    with dlog.start("export", long_log, "--to", form, str(file)) as process:
        while not (partial := list(tmp_path.iterdir())):
            assert process.poll() is None
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    assert re.fullmatch(r"stopped\.[0-9a-f]+\.partial", partial[0].name) and len(partial) == 1
    if process.returncode == 0:
        pytest.fail("it was done before the signal came")
    assert (process.returncode, out) == (code, b"")
    said, _ = err.decode().splitlines()
    assert said.startswith("dlog: stopped early: ") and said.endswith(f" read, {file} was not written")
    assert list(tmp_path.iterdir()) == []


def test_a_killed_export_leaves_no_file_of_its_name(dlog: Command, long_log: str, tmp_path: Path) -> None:
    file = tmp_path / "killed"
    with dlog.start("export", long_log, "--to", "jsonl", str(file)) as process:
        while not list(tmp_path.iterdir()):
            assert process.poll() is None
        process.kill()
        process.communicate(timeout=20)
    [partial] = tmp_path.iterdir()
    assert re.fullmatch(r"killed\.[0-9a-f]+\.partial", partial.name)
    dlog.here("export", long_log, "--to", "jsonl", str(file)).must_succeed()
    assert len(file.read_bytes().splitlines()) == 50_000


@pytest.mark.parametrize("form", FORMATS)
def test_a_stopped_export_to_a_pipe_does_not_look_whole(dlog: Command, long_log: str, form: str) -> None:
    with dlog.start("export", long_log, "--to", form, "-") as process:
        assert process.stdout is not None
        begun = process.stdout.read(4)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    said, last = err.decode().splitlines()
    assert said.startswith("dlog: stopped early: ") and said.endswith(" messages written")
    assert last == "dlog: interrupted"
    if form == "parquet":
        assert begun == b"PAR1" and not out.endswith(b"PAR1")


def test_a_file_made_meanwhile_is_kept(dlog: Command, long_log: str, tmp_path: Path) -> None:
    file = tmp_path / "raced"
    with dlog.start("export", long_log, "--to", "jsonl", str(file)) as process:
        while not list(tmp_path.iterdir()):
            assert process.poll() is None
        pause_process(process.pid)
        file.write_text("mine")
        process.send_signal(signal.SIGCONT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert f"{file} exists" in err.decode().splitlines()[-1]
    assert file.read_text() == "mine" and list(tmp_path.iterdir()) == [file]


def test_a_full_disk_is_named(cluster: Standalone, long_log: str) -> None:
    for form in FORMATS:
        with Path("/dev/full").open("wb") as full:
            done = subprocess.run(
                [sys.executable, "-m", "dlog.cli.main", "export", long_log, "--to", form, "-"],
                stdout=full,
                stderr=subprocess.PIPE,
                env=Command(cluster.uri).environment(),
                check=False,
            )
        assert done.returncode == 1
        assert done.stderr.splitlines()[-1] == b"dlog: cannot write the output: No space left on device"


# ---- on a terminal


def test_a_terminal_shows_progress(cluster: Standalone, long_log: str, tmp_path: Path) -> None:
    """Of a whole log and of a part, whose messages are counted."""
    rows = Command(cluster.uri)("read", long_log, "-n", "20001", "-o", "json").must_succeed().splitlines()
    whole: tuple[str, ...] = ()
    for bounds, total in (whole, 50_000), (("--until", json.loads(rows[-1])["id"]), 20_000):
        file = tmp_path / str(total)
        shown = on_terminal(
            100, "dlog.cli.main", "export", long_log, "--to", "jsonl", *bounds, str(file), uri=cluster.uri
        )
        assert f"/{total}" in shown and "messages" in shown
        assert f"{total:,} messages exported to {file}" in shown.replace("\n", "")


def test_parquet_is_not_for_a_terminal(cluster: Standalone, log: str) -> None:
    with pytest.raises(AssertionError, match="parquet is not text for a terminal"):
        on_terminal(100, "dlog.cli.main", "export", log, "--to", "parquet", "-", uri=cluster.uri)
