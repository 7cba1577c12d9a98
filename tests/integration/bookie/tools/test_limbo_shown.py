"""A bookie in limbo, as the commands show it that list a cluster's bookies."""

from __future__ import annotations

import json
import os
import signal

import pytest

from dlog.local.signalling import pause_process
from tests.helpers.bookie.damaged_journal import damage_the_middle_of_the_journal, killed_after_ten_adds
from tests.helpers.processes.bookie import BookieProcess, listed_bookies, run_bookie

pytestmark = pytest.mark.integration

FULL: dict[str, object] = {"disk_usage_max": 1e-7, "disk_usage_writable": 5e-8}


def reason(bookie: BookieProcess) -> str:
    """Why placement does not choose the bookie."""
    one = ("--ensemble", "1", "--write", "1", "--ack", "1")
    done = run_bookie("placement", "--metadata", bookie.metadata, *one, "-o", "json")
    assert done.returncode == 1, "no bookie is writable"
    [row] = json.loads(done.stdout)["bookies"]
    found: str = row["may_be_chosen"]
    return found


def in_limbo(bookie: BookieProcess) -> list[tuple[str, bool | None]]:
    return [(each["state"], each["in_limbo"]) for each in listed_bookies(bookie.metadata)]


def test_a_bookie_in_limbo_is_told_from_one_that_is_read_only(bookie: BookieProcess) -> None:
    assert in_limbo(bookie) == [("writable", False)]
    bookie.terminate()
    bookie.settings = {"storage": FULL}
    bookie.start()
    assert in_limbo(bookie) == [("read-only", False)]
    assert reason(bookie) == "no: read-only"
    bookie.terminate()
    bookie.settings = {}
    bookie.start()
    killed_after_ten_adds(bookie)
    damage_the_middle_of_the_journal(bookie)
    bookie.settings = {"storage": {"limbo_on_damage": True}}
    bookie.start()
    assert in_limbo(bookie) == [("read-only", True)]
    assert reason(bookie) == "no: in limbo"
    [columns, shown] = run_bookie("ls", "--metadata", bookie.metadata).stdout.splitlines()
    assert columns.split() == ["bookie", "address", "state", "in", "limbo"] and shown.endswith("yes")


def test_whether_a_bookie_that_hangs_is_in_limbo_is_unknown(bookie: BookieProcess) -> None:
    """The list is printed all the same."""
    bookie.terminate()
    bookie.settings = {"storage": FULL}
    bookie.start()
    pause_process(bookie.pid)
    try:
        assert in_limbo(bookie) == [("read-only", None)]
        assert reason(bookie) == "no: read-only"
    finally:
        os.kill(bookie.pid, signal.SIGCONT)
