"""The drivers under test. A new driver joins the suite by one more branch here."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.conformance.support import ApartDriver, Driver, SimulatedDriver

_names = itertools.count()


@pytest.fixture(params=["memory", "sqlite", "sqlite-apart", "simulated"])
def driver(request: pytest.FixtureRequest, tmp_path: Path) -> Driver:
    if request.param == "memory":
        return Driver(f"memory:conformance-{next(_names)}")
    if request.param == "simulated":
        return SimulatedDriver(f"conformance-{next(_names)}")
    if request.param == "sqlite-apart":
        return ApartDriver(f"{tmp_path}/meta.db")
    return Driver(f"sqlite:///{tmp_path}/meta.db")


@pytest.fixture
def sqlite_driver(tmp_path: Path) -> Driver:
    return Driver(f"sqlite:///{tmp_path}/meta.db")
