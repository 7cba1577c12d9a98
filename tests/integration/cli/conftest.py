"""One cluster of three bookies for the commands."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from dlog.local.embedded import Standalone
from tests.helpers.processes.command import Command


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(autouse=True)
def _commands_do_not_ignore_hanging_up() -> Iterator[None]:
    """Commands inherit an ignored signal, as of a suite that `nohup` has started, and no handler."""
    before = signal.getsignal(signal.SIGHUP)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def dlog(cluster: Standalone) -> Command:
    return Command(cluster.uri)
