"""The fixtures as users get them: pytest in a process of its own, with nothing of ours but the plugin."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.repository import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

PLUGIN = ("-p", "dlog.testing.pytest_plugin", "-p", "no:cacheprovider", "-p", "no:xdist")
EXAMPLES = sorted((ROOT / "examples" / "testing").glob("test_*.py"))


def python(*arguments: str, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=280,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""},
        check=False,
    )


def run_tests(directory: Path, source: str, *options: str) -> subprocess.CompletedProcess[str]:
    (directory / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\nfilterwarnings = error\n")
    (directory / "test_it.py").write_text(source)
    return python("-m", "pytest", "-v", *PLUGIN, *options, directory=directory)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_pass(example: Path, tmp_path: Path) -> None:
    done = run_tests(tmp_path, example.read_text("utf-8"))
    assert done.returncode == 0, done.stdout


def test_a_test_that_does_not_ask_for_a_cluster_imports_none(tmp_path: Path) -> None:
    source = """
import sys

def test_modules():
    ours = {name for name in sys.modules if name.partition(".")[0] in ("dlog", "ledger", "bookie_server")}
    assert ours == {"dlog", "dlog.testing", "dlog.testing.pytest_plugin"}
"""
    done = run_tests(tmp_path, source)
    assert done.returncode == 0, done.stdout


def test_an_older_pytest_loads_the_plugin_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an entry point: if it could not be loaded, no run of pytest would begin where dlog is installed."""

    def hookimpl(*, hookwrapper: bool = False, tryfirst: bool = False) -> Callable[[object], object]:
        return lambda function: function

    monkeypatch.delattr(pytest, "StashKey")  # since pytest 7.0
    monkeypatch.setattr(pytest, "hookimpl", hookimpl)  # `wrapper` since pluggy 1.2
    spec = importlib.util.find_spec("dlog.testing.pytest_plugin")
    assert spec is not None and spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


SIMULATED = """
import asyncio, functools
import pytest

@pytest.mark.dlog(seeds=3)
async def test_one_seed_fails(simulated_cluster):
    simulated_cluster.kill_bookie(1)
    await asyncio.sleep(60)
    assert simulated_cluster.loop.seeds.seed != 2

@pytest.mark.dlog(seeds=(5,), bookies=5)
class TestInAClass:
    async def test_five(self, simulated_cluster, tmp_path):
        assert tmp_path.is_dir()
        async with await simulated_cluster.client() as client:
            assert len(client.ledgers.bookies().writable) == 5

def test_without_a_loop(simulated_cluster):
    raise AssertionError("not reached")
"""


def test_a_simulated_test_runs_once_a_seed_and_a_failure_shows_what_happened(tmp_path: Path) -> None:
    done = run_tests(tmp_path, SIMULATED)
    assert "1 failed, 3 passed, 1 error" in done.stdout
    assert "FAILED test_it.py::test_one_seed_fails[seed-2]" in done.stdout
    assert "test_it.py::TestInAClass::test_five[seed-5] PASSED" in done.stdout
    assert "bookie-1  !! kill" in done.stdout
    assert "simulated_cluster needs an async test" in done.stdout


def test_a_mark_that_has_no_effect_is_refused(tmp_path: Path) -> None:
    simulated = "async def test_{number}(simulated_cluster): pass"
    real = "def test_{number}(dlog_cluster): pass"
    wrong = (
        ("(20)", simulated, "takes its settings by name, as in @pytest.mark.dlog(seeds=20)"),
        ("(seeds=2, bookie=5)", simulated, "has no 'bookie': use seeds, bookies, config"),
        ("(bookie=5)", real, "has no 'bookie': use seeds, bookies, config"),
        ("(bookies=5, config=ClusterConfig(racks=2))", simulated, "set ClusterConfig(bookies=5)"),
        ("(config={})", simulated, "takes a dlog.testing.ClusterConfig as config, got {}"),
        ("(seeds=0)", simulated, "their number, at least 1, or a list of them, got 0"),
        ("(seeds=[])", simulated, "or a list of them, got []"),
        ("(seeds='20')", simulated, "or a list of them, got '20'"),
        ("(seeds=2.5)", simulated, "or a list of them, got 2.5"),
        ("(seeds=5)", real, "seeds and config are of simulated_cluster"),
    )
    imports = "import pytest\nfrom dlog.testing import ClusterConfig\n"
    for number, (given, test, _) in enumerate(wrong):
        source = f"{imports}\n@pytest.mark.dlog{given}\n{test.format(number=number)}\n"
        (tmp_path / f"test_{number}.py").write_text(source)
    done = run_tests(tmp_path, "", "--continue-on-collection-errors")
    _, *named = re.split(r"^_+ ERROR .*\b(test_\d+)\b.* _+$", done.stdout, flags=re.MULTILINE)
    reports = dict(zip(named[::2], named[1::2], strict=True))
    for number, (_, _, sentence) in enumerate(wrong):
        assert sentence in reports[f"test_{number}"], done.stdout
    assert f"{len(wrong)} errors" in done.stdout and "passed" not in done.stdout


def test_a_seed_may_be_chosen_and_its_messages_shown(tmp_path: Path) -> None:
    source = """
async def test_append(simulated_cluster):
    async with await simulated_cluster.client() as client, client.open_writer("orders", create=True) as writer:
        await writer.append(b"one")
    raise AssertionError("to see the timeline")
"""
    done = run_tests(tmp_path, source, "--dlog-seed", "17", "--dlog-timeline")
    assert "FAILED test_it.py::test_append[seed-17]" in done.stdout
    assert "-> bookie-1" in done.stdout and "ADD 1:0 lac -1" in done.stdout and "durable" in done.stdout


def test_a_plugin_for_asyncio_does_not_take_the_test_away(tmp_path: Path) -> None:
    """Such plugins put a function that runs the test on a loop of theirs in its place."""
    (tmp_path / "conftest.py").write_text("""
import asyncio, functools, inspect
import pytest

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    test = item.obj
    item.obj = functools.wraps(test)(lambda *args, **kwargs: asyncio.run(test(*args, **kwargs)))
""")
    source = """
import asyncio

async def test_loop(simulated_cluster):
    assert asyncio.get_running_loop() is simulated_cluster.loop
"""
    done = run_tests(tmp_path, source)
    assert done.returncode == 0, done.stdout


def test_no_process_outlives_a_test_that_fails(tmp_path: Path) -> None:
    source = """
from pathlib import Path

def test_fails(dlog_cluster):
    pids = [str(bookie.process_id) for bookie in dlog_cluster.bookies]
    Path("pids").write_text(" ".join(pids))
    dlog_cluster.pause(0)
    dlog_cluster.kill(1)
    dlog_cluster.partition(2)
    raise AssertionError("as it happens")
"""
    done = run_tests(tmp_path, source)
    assert "1 failed" in done.stdout and "error" not in done.stdout.splitlines()[-1], done.stdout
    for pid in (tmp_path / "pids").read_text().split():
        assert not Path("/proc", pid).exists()
