"""Where CI is set a skipped test fails, unless it is on the list here, which says why it may be.

So continuous integration cannot leave a test out without anybody having decided it. Elsewhere a test that finds
something missing (Java, jars, strace) is skipped with the command that brings it, and pytest lists it at the end.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import pytest


@dataclass(frozen=True, slots=True)
class Allowed:
    """Tests below `where` may be skipped with a reason that matches `reason`."""

    where: str
    reason: str
    why: str


NEEDS_MOUNT = "needs the right to mount a tmpfs"

ALLOWED = (
    Allowed(
        "tests/simulation/test_evidence.py::test_the_page_is_true_of_the_commit_that_it_names",
        "git does not have commit",
        "a shallow clone lacks the commit of the page; a full one compares",
    ),
    Allowed(
        "tests/crash/test_disk_full.py::",
        NEEDS_MOUNT,
        "a container may lack the right; the simulated disk fills up in tests/simulation everywhere",
    ),
    Allowed(
        "tests/integration/bookie/storage/test_disk_watch.py::",
        NEEDS_MOUNT,
        "as above; the decision itself is tested in tests/unit/bookie_server",
    ),
    Allowed(
        "tests/integration/bookie/storage/test_ledger_directories.py::",
        NEEDS_MOUNT,
        "as above; the choice of a directory is tested in tests/unit/bookie_server",
    ),
    Allowed(
        "tests/integration/ledger/test_full_disk.py::",
        NEEDS_MOUNT,
        "as above; what follows from the error is tested in tests/unit/ledger/metadata",
    ),
)


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str | None:
    """Why it was skipped, or failed as expected; None if it was not."""
    if report.outcome != "skipped":
        return None
    if hasattr(report, "wasxfail"):
        return f"expected to fail: {report.wasxfail}"
    return str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else str(report.longrepr)


def is_allowed(node_id: str, reason: str) -> bool:
    return any(node_id.startswith(each.where) and re.search(each.reason, reason) for each in ALLOWED)


def judge(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Make a failure of a skip that nobody has decided on."""
    reason = reason_of(report)
    if reason is not None and os.environ.get("CI") and not is_allowed(report.nodeid, reason):
        report.outcome = "failed"
        report.longrepr = (
            f"skipped ({reason}), and CI leaves nothing out: install what it needs, or list it in {__name__}"
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, pytest.TestReport]:
    report: pytest.TestReport = yield
    judge(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, Any, pytest.CollectReport]:
    report: pytest.CollectReport = yield
    judge(report)
    return report
