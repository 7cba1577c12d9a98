"""The drivers under test. A new driver joins the suite by one more branch here."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.helpers.metadata.drivers import ApartDriver, Driver, SimulatedDriver, ZooKeeperDriver
from tests.helpers.processes.zookeeper import ZooKeeperProcess

_names = itertools.count()


@pytest.fixture
def zookeeper_driver(zookeeper: ZooKeeperProcess) -> Driver:
    return ZooKeeperDriver(f"zk://{zookeeper.address}{zookeeper.new_root()}?session_timeout_ms=12000")


@pytest.fixture(params=["memory", "sqlite", "sqlite-apart", "simulated", "zookeeper"])
def driver(request: pytest.FixtureRequest, tmp_path: Path) -> Driver:
    if request.param == "memory":
        return Driver(f"memory:conformance-{next(_names)}")
    if request.param == "simulated":
        return SimulatedDriver(f"conformance-{next(_names)}")
    if request.param == "zookeeper":
        driver: Driver = request.getfixturevalue("zookeeper_driver")
        return driver
    if request.param == "sqlite-apart":
        return ApartDriver(f"{tmp_path}/meta.db")
    return Driver(f"sqlite:///{tmp_path}/meta.db")


@pytest.fixture
def sqlite_driver(tmp_path: Path) -> Driver:
    return Driver(f"sqlite:///{tmp_path}/meta.db")
