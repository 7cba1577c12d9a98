"""CI fails on a skip that is not on the list of tests/helpers/skips.py; elsewhere it is a skip."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.repository import ROOT
from tests.helpers.skips import ALLOWED, NEEDS_MOUNT, Allowed, is_allowed

PROGRAM = """
import pytest

@pytest.fixture
def lacking():
    pytest.skip("no such program")

def test_in_the_middle():
    pytest.skip("no such program")

def test_in_a_fixture(lacking): ...

@pytest.mark.skip(reason="no such program")
def test_by_a_mark(): ...

@pytest.mark.xfail(reason="no such program")
def test_expected_to_fail():
    assert False
"""


def run(directory: Path, ci: str) -> str:
    """The last line of pytest's output, run on PROGRAM."""
    (directory / "test_lacking.py").write_text(PROGRAM)
    (directory / "test_module.py").write_text("import pytest\npytest.importorskip('no_such_module')\n")
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "tests.helpers.skips",
            "-p",
            "no:cacheprovider",
            "--continue-on-collection-errors",
            str(directory),
        ],
        env={**os.environ, "CI": ci, "PYTHONPATH": str(ROOT)},
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return ended.stdout.splitlines()[-1]


def test_a_skip_that_is_not_listed_fails_in_ci(tmp_path: Path) -> None:
    """In a test, a fixture, a mark, a module, and a test that is expected to fail."""
    last = run(tmp_path, "true")
    assert "skipped" not in last and "passed" not in last, last
    assert sum(map(int, re.findall(r"(\d+) (?:failed|errors?)", last))) == 5, last


def test_elsewhere_it_is_a_skip(tmp_path: Path) -> None:
    assert "4 skipped, 1 xfailed in" in run(tmp_path, "")


@pytest.mark.parametrize("allowed", ALLOWED, ids=lambda each: each.where)
def test_what_is_listed_is_there(allowed: Allowed) -> None:
    """An entry whose tests are gone would let a later test of that name through."""
    path, _, name = allowed.where.partition("::")
    text = (ROOT / path).read_text("utf-8")
    assert f"def {name}(" in text if name else "pytest.skip(" in text


def test_every_file_that_may_lack_the_right_to_mount_is_listed() -> None:
    """Else `.ci/run` fails in a container for want of a right, as the list says that it does not."""
    skips = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("test_*.py")
        if re.search(r"^ +pytest\.skip\(NEEDS_MOUNT", path.read_text("utf-8"), re.MULTILINE)
    }
    assert len(skips) > 1
    assert [path for path in sorted(skips) if not is_allowed(f"{path}::test_x", NEEDS_MOUNT)] == []


def test_the_reason_counts_too() -> None:
    """The test of the list may not be skipped for want of something else."""
    where = "tests/crash/test_disk_full.py::test_x"
    assert is_allowed(where, "needs the right to mount a tmpfs")
    assert not is_allowed(where, "no strace")
    assert not is_allowed("tests/unit/test_y.py::test_x", "needs the right to mount a tmpfs")


@pytest.mark.parametrize("lacking", ["java", "mvn"])
def test_without_what_fetches_the_jars_it_is_said_what_is_left_out(tmp_path: Path, lacking: str) -> None:
    """`make test` goes on; whoever asked for the jars themselves gets an exit code."""
    for name in {"bash", "dirname", "realpath", "cmp", "java", "mvn"} - {lacking}:
        (tmp_path / name).symlink_to(shutil.which(name) or "/bin/false")
    environment = {"PATH": str(tmp_path), "DLOG_JAVA_LIBS": str(tmp_path / "libs")}
    script = ROOT / "tools" / "fetch-java-libs"
    for arguments, code in ((["--if-possible"], 0), ([], 1)):
        ended = subprocess.run(
            [script, *arguments], env=environment, capture_output=True, text=True, timeout=60
        )
        assert ended.returncode == code, ended.stderr
        assert "there is no" in ended.stderr and "apt-get install" in ended.stderr
        assert ("will be skipped" in ended.stderr) == (code == 0)
