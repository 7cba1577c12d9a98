"""One cluster of three bookies for the commands."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dlog.local.embedded import Standalone
from tests.helpers.processes.command import Command


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def dlog(cluster: Standalone) -> Command:
    return Command(cluster.uri)
