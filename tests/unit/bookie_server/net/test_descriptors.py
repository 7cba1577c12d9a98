"""Connections are capped so that files can always be opened."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from bookie_server.config import Limits
from bookie_server.net.descriptors import CONNECTIONS_MIN, limits_within, reserved_descriptors
from bookie_server.storage.config import StorageConfig
from ledger.errors import ConfigurationError

STORAGE = StorageConfig(journal_directory=Path("/j"), ledger_directory=Path("/l"))
RESERVED = reserved_descriptors(STORAGE)


@pytest.mark.parametrize("descriptors_max", [RESERVED + 2000, 1 << 20, resource.RLIM_INFINITY])
def test_enough_descriptors_change_nothing(descriptors_max: int) -> None:
    assert limits_within(Limits(), STORAGE, descriptors_max) == Limits()


def test_fewer_leave_what_files_need_and_half_of_the_rest_to_one_address() -> None:
    limits = limits_within(Limits(), STORAGE, RESERVED + 100)
    assert (limits.connections_max, limits.connections_per_address_max) == (100, 50)


def test_more_readers_need_more_files() -> None:
    many = StorageConfig(journal_directory=Path("/j"), ledger_directory=Path("/l"), read_worker_count=8)
    assert reserved_descriptors(many) > RESERVED + 100


def test_too_few_are_refused_with_what_is_needed() -> None:
    with pytest.raises(
        ConfigurationError, match=rf"is {RESERVED}, .* needs at least {RESERVED + CONNECTIONS_MIN}"
    ):
        limits_within(Limits(), STORAGE, RESERVED)
    assert limits_within(Limits(), STORAGE, RESERVED + CONNECTIONS_MIN).connections_max == CONNECTIONS_MIN
