"""What both command lines share: exit codes of a command that is interrupted, and messages about wrong values."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import bookie_server.tools.cli
import dlog.cli.main
from ledger.command_line import confirmed, say
from tests.helpers.options_page import commands_of

_PROGRAM = """
import typer
from ledger.command_line import Boundary

app = typer.Typer(cls=Boundary)

@app.callback()
def options() -> None: ...

@app.command()
def verb() -> None:
    {body}

app(prog_name="program")
"""


@pytest.mark.parametrize(
    ("body", "code", "error"),
    [
        ("exec('raise KeyboardInterrupt')", 130, "program: interrupted\n"),
        ("import signal; signal.raise_signal(signal.SIGTERM)", 143, "program: terminated\n"),
        ("exec('import signal; signal.raise_signal(signal.SIGTERM)')", 143, "program: terminated\n"),
    ],
    ids=["in the exec of a string", "terminated", "terminated in the exec of a string"],
)
def test_its_exit_code_is_kept(tmp_path: Path, body: str, code: int, error: str) -> None:
    """Also where the signal came while a module with dataclasses was imported, and with `python -m`."""
    (tmp_path / "program.py").write_text(_PROGRAM.format(body=body))
    run = subprocess.run(
        [sys.executable, "-m", "program", "verb"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr) == (code, error)


class _Endless(io.RawIOBase):
    """Zeros without an end of a line, as /dev/zero has them."""

    taken = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self.taken += len(buffer)
        assert self.taken < 1_000_000, "all of it is read"
        buffer[:] = bytes(len(buffer))
        return len(buffer)


def test_an_answer_without_end_is_a_no(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(_Endless())))
    assert not confirmed("Delete?")


def test_a_sentence_has_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    """Errors name the owner of a log as it calls itself."""
    say("dlog", "log orders was taken over by \x1b]0;title\x07\n\x9b2J é")
    assert capsys.readouterr().err == (r"dlog: log orders was taken over by \x1b]0;title\x07 \x9b2J é" + "\n")


@pytest.mark.parametrize(
    ("program", "app"), [("dlog", dlog.cli.main.app), ("bookie", bookie_server.tools.cli.app)]
)
def test_the_version_is_that_of_the_package(program: str, app: typer.Typer) -> None:
    shown = CliRunner().invoke(app, ["--version"])
    assert (shown.exit_code, shown.output) == (0, f"{program} {version('dlog-bookkeeper')}\n")


@pytest.mark.parametrize("program", ["dlog", "bookie_server"])
def test_a_wide_terminal_shows_what_each_verb_does_in_full(program: str) -> None:
    environment = {**os.environ, "COLUMNS": "140"}
    shown = subprocess.run(
        [sys.executable, "-m", program, "--help"], capture_output=True, check=True, text=True, env=environment
    )
    assert [line for line in shown.stdout.splitlines() if line.endswith("...") and "Usage" not in line] == []


@pytest.mark.parametrize("app", [dlog.cli.main.app, bookie_server.tools.cli.app], ids=["dlog", "bookie"])
def test_help_names_numbers_by_what_they_are(app: typer.Typer) -> None:
    """And not by their type, as `<int range>`."""
    for name, command in commands_of(app):
        for parameter in command.params:
            if parameter.type.name.endswith("range"):
                assert parameter.metavar, (name, parameter.name)


def with_value(app: typer.Typer, value: str, *kinds: str) -> Iterator[tuple[str, str]]:
    """Each option or argument of these kinds, and the last line of what its command prints for the value."""
    for name, command in commands_of(app):
        for parameter in command.params:
            if not parameter.type.name.startswith(kinds):
                continue
            is_argument = parameter.param_type_name == "argument"
            needed = [
                "1" if each is not parameter else value
                for each in command.params
                if each.param_type_name == "argument" and (each.required or each is parameter)
            ]
            given = [*needed, *([] if is_argument else [parameter.opts[0], value])]
            run = CliRunner().invoke(app, [*name.split(), *given], env={"DLOG_METADATA": "memory://"})
            *_, message = run.stderr.splitlines()
            assert run.exit_code == 2, (name, run.stderr)
            yield "LEDGER" if is_argument else parameter.opts[0], message


@pytest.mark.parametrize("app", [dlog.cli.main.app, bookie_server.tools.cli.app], ids=["dlog", "bookie"])
def test_a_wrong_value_is_named_with_its_option(app: typer.Typer) -> None:
    tried = 0
    for option, message in with_value(app, "nope!", "int", "float", "choice"):
        assert option in message and "'nope!'" in message, message
        assert "Value error" not in message and "Input" not in message, message
        tried += 1
    assert tried > 15


@pytest.mark.parametrize("app", [dlog.cli.main.app, bookie_server.tools.cli.app], ids=["dlog", "bookie"])
def test_nan_is_outside_all_limits(app: typer.Typer) -> None:
    tried = 0
    for option, message in with_value(app, "nan", "float"):
        assert option in message and "nan" in message, message
        tried += 1
    assert tried > 3


def test_a_value_out_of_range_is_named_with_its_limit() -> None:
    run = CliRunner().invoke(dlog.cli.main.app, ["standalone", "--bookies", "65"])
    assert run.exit_code == 2
    assert "Invalid value for '--bookies': " in run.stderr
    assert "65" in run.stderr and "64" in run.stderr
