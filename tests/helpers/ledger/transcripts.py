"""Runs the text transcripts under tests/scenarios.

A transcript is blocks of an event line and the indented lines that it must cause:

    # a comment, kept as it is
    open append E3 Qw3 Qa2 strict
    send 0..1 lac -1
      -
    ack b1 1
      -

`REWRITE_SCENARIOS=1 pytest tests/scenarios` writes what the code does now into the files; read the difference.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

Step = Callable[[str], list[str]]


def run(path: Path, open_subject: Callable[[str], Step]) -> None:
    """Replay one transcript and compare, line by line."""
    text = path.read_text()
    replayed = "\n".join(_replay(text.splitlines(), open_subject)) + "\n"
    if os.environ.get("REWRITE_SCENARIOS"):
        path.write_text(replayed)
    assert replayed == text


def _replay(lines: list[str], open_subject: Callable[[str], Step]) -> list[str]:
    out: list[str] = []
    step: Step | None = None
    for line in lines:
        if line.startswith(" "):
            continue  # what it caused last time
        out.append(line)
        if not line or line.startswith("#"):
            continue
        if line.startswith("open "):
            step = open_subject(line)
            continue
        assert step is not None, "a transcript starts with an open line"
        out += [f"  {caused}" for caused in step(line) or ["-"]]
    return out


def number(text: str, name: str, default: int | None = None) -> int:
    """The integer behind `name` in an event line, as in `lac -1` or `E3`."""
    match = re.search(rf"\b{name} ?(-?\d+)", text)
    if match is None:
        assert default is not None, f"{text!r} lacks {name}"
        return default
    return int(match.group(1))
