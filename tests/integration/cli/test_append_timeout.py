"""`dlog append` while every bookie hangs: it says which ones, gives up in time, and does not wait for its input."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dlog.local.embedded import Standalone
from dlog.local.signalling import pause_process
from tests.helpers.processes.command import Command

pytestmark = pytest.mark.integration


@contextmanager
def stopped(cluster: Standalone) -> Iterator[None]:
    """All bookies accept connections and do nothing."""
    processes = [bookie.process_id for bookie in cluster.bookies if bookie.process_id is not None]
    for process_id in processes:
        pause_process(process_id)
    try:
        yield
    finally:
        for process_id in processes:
            os.kill(process_id, signal.SIGCONT)


def test_an_append_that_no_bookie_answers_is_reported_and_given_up(tmp_path: Path) -> None:
    with (
        Standalone(tmp_path) as cluster,
        Command(cluster.uri).start("append", "hung", "--create", "--timeout", "8") as process,
    ):
        assert process.stdin is not None and process.stderr is not None
        process.stdin.write(b"one\n")
        process.stdin.flush()
        read = Command(cluster.uri)
        while read("read", "hung", "-o", "raw").out != "one\n":
            pass
        with stopped(cluster):
            began = time.monotonic()
            process.stdin.write(b"two\n")
            process.stdin.flush()
            warning = process.stderr.readline().decode()
            warned_s = time.monotonic() - began
            rest = process.stderr.read().decode()  # to its end, although stdin stays open
            ended_s = time.monotonic() - began
            assert process.wait(timeout=10) == 1
    assert re.match(
        r"dlog: log default/hung: an append has waited \d s, still trying up to 8 s: ", warning
    ), warning
    assert re.search(r"bookie 127\.0\.0\.1:\d+ (has not responded for|did not respond within)", warning), (
        warning
    )
    assert "1 message acknowledged" in rest
    assert "1 more may or may not have been appended" in rest
    assert "not acknowledged within 8 s (ledger" in rest
    assert "Traceback" not in rest
    assert 4 < warned_s < 7.5 + 5, warned_s
    assert 7.5 < ended_s < 8 + 10, ended_s
