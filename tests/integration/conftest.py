"""One cluster of three real bookies a module that asks for it; each test has a log of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

import dlog
from dlog.local.embedded import Standalone


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with dlog.standalone(tmp_path_factory.mktemp("cluster"), bookies=3, restart=False) as running:
        yield running


@pytest.fixture
def log(request: pytest.FixtureRequest) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", request.node.name)[:200]
