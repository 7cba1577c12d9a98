"""What both command lines share: exit codes of a command that is interrupted, and messages about wrong values."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import bookie_server.tools.cli
import dlog.cli.main
from ledger.command_line import say
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


@pytest.mark.parametrize("app", [dlog.cli.main.app, bookie_server.tools.cli.app], ids=["dlog", "bookie"])
def test_a_wrong_value_is_named_with_its_option(app: typer.Typer) -> None:
    tried = 0
    for name, command in commands_of(app):
        for parameter in command.params:
            if not parameter.type.name.startswith(("int", "float", "choice")):
                continue
            is_argument = parameter.param_type_name == "argument"
            needed = [
                "1" if each is not parameter else "nope!"
                for each in command.params
                if each.param_type_name == "argument" and (each.required or each is parameter)
            ]
            given = [*needed, *([] if is_argument else [parameter.opts[0], "nope!"])]
            run = CliRunner().invoke(app, [*name.split(), *given], env={"DLOG_METADATA": "memory://"})
            *_, message = run.stderr.splitlines()
            assert run.exit_code == 2, (name, run.stderr)
            assert ("LEDGER" if is_argument else parameter.opts[0]) in message and "'nope!'" in message, (
                message
            )
            tried += 1
    assert tried > 15


def test_a_value_out_of_range_is_named_with_its_limit() -> None:
    run = CliRunner().invoke(dlog.cli.main.app, ["standalone", "--bookies", "65"])
    assert run.exit_code == 2
    assert "Invalid value for '--bookies': " in run.stderr
    assert "65" in run.stderr and "64" in run.stderr


@pytest.mark.parametrize(
    ("app", "arguments"),
    [
        (dlog.cli.main.app, "gc --age"),
        (dlog.cli.main.app, "append orders --wait-for-owner"),
        (bookie_server.tools.cli.app, "compact --data bookie --threshold"),
        (bookie_server.tools.cli.app, "recover 127.0.0.1:3181 --grace"),
        (bookie_server.tools.cli.app, "autorecovery --grace"),
    ],
)
def test_nan_is_outside_all_limits(app: typer.Typer, arguments: str) -> None:
    run = CliRunner().invoke(app, [*arguments.split(), "nan"], env={"DLOG_METADATA": "memory://"})
    assert run.exit_code == 2
    assert f"Invalid value for '{arguments.split()[-1]}': nan" in run.stderr
