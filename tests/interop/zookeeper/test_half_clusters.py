"""A cluster of which a part is missing: the commands that the errors name lead out of each such state."""

from __future__ import annotations

import re

import pytest
from kazoo.client import KazooClient

from tests.helpers.processes.bookie import run_bookie
from tests.helpers.processes.zookeeper import ZooKeeperProcess

pytestmark = pytest.mark.integration

INTERRUPTED = ("/available/readonly", "/available")
MISSING = {
    "no bookie can register": INTERRUPTED,
    "no bookie can register, no LAYOUT": (*INTERRUPTED, "/LAYOUT"),
    "no INSTANCEID": ("/INSTANCEID",),
    "no INSTANCEID, and no bookie can register": (*INTERRUPTED, "/INSTANCEID"),
}
ALWAYS = ("no bookie can register", "no INSTANCEID")
"""Tried in each run of the suite; the others are nightly."""
FIRST = (
    ["instance-id"],
    ["ls"],
    ["init-cluster"],
    ["format-cluster", "--yes"],
    ["nuke-cluster", "--force"],
)
BY_ID = ["nuke-cluster", "--instance-id", "another"]
STEPS_MAX = 4


@pytest.mark.parametrize(
    "state",
    [pytest.param(state, marks=() if state in ALWAYS else pytest.mark.nightly) for state in MISSING],
)
def test_the_commands_that_errors_name_lead_to_a_cluster(
    zookeeper: ZooKeeperProcess, raw: KazooClient, state: str
) -> None:
    for first in (*FIRST, BY_ID) if "/INSTANCEID" in MISSING[state] else FIRST:
        root = zookeeper.new_root()
        uri = f"zk+hierarchical://{zookeeper.address}{root}"
        assert run_bookie("init-cluster", "--metadata", uri).returncode == 0
        for path in MISSING[state]:
            raw.delete(root + path)
        walk(uri, first)
        ready = run_bookie("instance-id", "--metadata", uri)
        assert (ready.returncode, ready.stderr) == (0, ""), (first, ready)


def walk(uri: str, command: list[str]) -> None:
    """Run the command, and then the one that its error names, until `init-cluster` has made a cluster."""
    said = []
    for _ in range(STEPS_MAX):
        done = run_bookie(*command, "--metadata", uri)
        assert "Traceback" not in done.stderr
        said.append((command, done.stdout + done.stderr))
        if done.returncode == 0:
            if command[0] in ("init-cluster", "format-cluster"):
                return
            command = ["init-cluster"]
            continue
        named = re.findall(r"bookie ((?:init|nuke)-cluster(?: --force)?)", done.stderr)
        assert named, said
        command = named[-1].split()
    raise AssertionError(said)
