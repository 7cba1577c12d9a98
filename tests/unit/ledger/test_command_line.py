"""Exit codes of a command that is interrupted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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
