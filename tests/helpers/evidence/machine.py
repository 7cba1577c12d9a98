"""What the numbers were measured with."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from tests.helpers.repository import ROOT


def commit() -> str:
    """The commit, with a mark if files were changed since."""
    head = _git("rev-parse", "--short=12", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", "*.py")
    return f"{head} with changes" if changed else head


def day() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d")


def machine() -> str:
    """Processor, how many of them, and the interpreter."""
    with Path("/proc/cpuinfo").open() as lines:
        models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = models[0] if models else platform.machine()
    return f"{os.cpu_count()} x {name}, Python {platform.python_version()}"


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
