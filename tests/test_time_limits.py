"""A test that hangs is ended: an async one by its limit, and one that resists by the guard of its process."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.helpers.repository import ROOT

HANGS = """
import asyncio

async def test_it_waits():
    await asyncio.get_running_loop().create_future()

async def test_after_it(): ...
"""
RESISTS = """
import asyncio

async def test_it_waits_again_when_it_is_cancelled():
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass
"""


def run(directory: Path, program: str, *options: str) -> subprocess.CompletedProcess[str]:
    (directory / "test_hanging.py").write_text(program)
    plugins = ["-p", "tests.conftest", "-p", "no:cacheprovider"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, "--timeout=1", *options, str(directory)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_an_async_test_ends_at_its_limit_and_the_next_one_runs(tmp_path: Path) -> None:
    ended = run(tmp_path, HANGS)
    assert "TimeoutError" in ended.stdout
    assert "await asyncio.get_running_loop().create_future()" in ended.stdout, "it shows where it waited"
    assert "1 failed, 1 passed" in ended.stdout


def test_one_that_resists_ends_its_process_with_every_stack(tmp_path: Path) -> None:
    ended = run(tmp_path, RESISTS, "-o", "faulthandler_timeout=3", "-o", "faulthandler_exit_on_timeout=true")
    assert ended.returncode != 0
    assert "passed" not in ended.stdout
    assert "Timeout (0:00:03)!" in ended.stderr
    assert "most recent call first" in ended.stderr


def test_the_guard_of_the_process_is_above_every_limit() -> None:
    options = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["pytest"]["ini_options"]
    assert options["faulthandler_exit_on_timeout"] is True
    limits = [
        float(word.split(")")[0])
        for file in (ROOT / "tests").rglob("*.py")
        for word in file.read_text("utf-8").split("mark.timeout(")[1:]
        if word[0].isdigit()
    ]
    assert max(limits) < options["faulthandler_timeout"]
