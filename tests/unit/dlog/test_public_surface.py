"""What a person finds at the prompt, and what a type checker says of a misspelt name."""

from __future__ import annotations

import pydoc
import subprocess
import sys
from pathlib import Path

import dlog
import ledger

MISSPELT = """
import dlog
import ledger

client = dlog.conect("sqlite:///meta.db")
with dlog.connect("sqlite:///meta.db") as right:
    right.open_writr("orders")
    right.open_writer("orders").apend(b"payload")
ledger.LedgerKlient
try:
    right.shrink("orders", "1:0:0")
except dlog.errors.ShrinkRefusedError as error:
    print(error.limit.ledger_id, error.nonsense)
"""


def test_the_prompt_completes_public_names_only() -> None:
    assert dir(dlog) == sorted(dlog.__all__)
    assert dir(ledger) == sorted(ledger.__all__)


def test_help_shows_the_public_classes() -> None:
    shown = pydoc.plain(pydoc.render_doc(dlog))
    for name in ("class Client", "class Writer", "class Reader", "class LogConfig", "class BatchLimits"):
        assert name in shown


def test_a_type_checker_refuses_misspelt_names(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(MISSPELT)
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", f"--cache-dir={tmp_path}", str(program)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    refused = [line for line in checked.stdout.splitlines() if line.startswith(str(program))]
    lines = [int(line.split(":")[1]) for line in refused]
    assert lines == [5, 7, 8, 9, 13], checked.stdout
