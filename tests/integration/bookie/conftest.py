"""Clusters and bookies for these tests: real processes, real files, real sockets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bookie_server.tools.admin import init_cluster
from tests.helpers.processes.bookie import BookieProcess


@pytest.fixture
def metadata(tmp_path: Path) -> str:
    """URI of a fresh cluster's metadata store."""
    uri = f"sqlite:///{tmp_path}/meta.db"
    init_cluster(uri)
    return uri


@pytest.fixture
def bookie(metadata: str, tmp_path: Path) -> Iterator[BookieProcess]:
    """A running bookie, which must not have complained of a bug when the test is over."""
    process = BookieProcess(metadata, tmp_path / "bookie")
    process.start()
    yield process
    process.stop()
    assert "Traceback" not in process.errors
    assert "Exception" not in process.errors
