"""Fixtures for what entries written twice and entries written once must do alike; conftest.py files take them over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.helpers.bookie.storage import SINGLE_WRITE


@pytest.fixture(params=[0, 1, 400], ids=["written twice", "written once", "some written once"])
def both_storages(request: pytest.FixtureRequest) -> Iterator[None]:
    """Storages of the test write entries twice, or once, or small runs twice and larger ones once."""
    with _written(request.param):
        yield


@pytest.fixture(
    params=[
        pytest.param(0, id="written twice", marks=pytest.mark.nightly),
        pytest.param(400, id="some written once"),
    ]
)
def either_storage(request: pytest.FixtureRequest) -> Iterator[None]:
    """As `both_storages`, for tests that take long: what some write once goes most ways of what all do."""
    with _written(request.param):
        yield


@contextmanager
def _written(single_write_bytes_min: int) -> Iterator[None]:
    token = SINGLE_WRITE.set(single_write_bytes_min)
    yield
    SINGLE_WRITE.reset(token)
