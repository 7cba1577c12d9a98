"""A program that ends without closing its client is warned."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import dlog
from tests.helpers.repository import ROOT

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("undecided", [True, False])
def test_a_program_that_ends_without_closing_is_warned(tmp_path: Path, undecided: bool) -> None:
    """ResourceWarning, and a sentence on stderr if appends were under way: those may be lost."""
    program = (
        "import dlog, os, signal, sys\n"
        "client = dlog.connect(sys.argv[1])\n"
        "writer = client.open_writer('orders', create=True)\n"
        "for pid in map(int, sys.argv[2].split(',')):\n"
        "    os.kill(pid, signal.SIGSTOP)\n"
        "if sys.argv[3] == 'True':\n"
        "    for number in range(1000):\n"
        "        writer.submit(b'%d' % number)\n"
    )
    with dlog.standalone(tmp_path, restart=False) as cluster:
        pids = ",".join(str(bookie.process_id) for bookie in cluster.bookies)
        done = subprocess.run(
            [sys.executable, "-W", "always", "-c", program, cluster.uri, pids, str(undecided)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd=ROOT,
        )
        for index in range(3):
            cluster.kill(index)
    assert done.returncode == 0
    assert f"ResourceWarning: unclosed client of {cluster.uri}" in done.stderr
    lost = "the client of log default/orders was not closed: appends that are under way may be lost"
    assert (lost in done.stderr) is undecided
