"""The port of a bookie that was given none."""

from __future__ import annotations

import random

import pytest

from bookie_server.net.port import parse_range, ports_to_try
from ledger.errors import ConfigurationError


def test_no_connection_of_the_machine_can_take_it_by_default() -> None:
    *tried, last = ports_to_try(random.Random(1))
    assert len(set(tried)) == len(tried) >= 5
    assert all(1024 < port < 32_768 for port in tried)
    assert last == 0  # should others listen on all of these


def test_two_bookies_try_different_ones() -> None:
    assert set(ports_to_try(random.Random(1))) & set(ports_to_try(random.Random(2))) == {0}


def test_every_port_of_a_given_range_is_tried_and_no_other() -> None:
    given = parse_range("20000-20009")
    assert sorted(ports_to_try(random.Random(1), given)) == list(range(20_000, 20_010))
    assert parse_range("65535-65535") == range(65_535, 65_536)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        "20000",
        "20000-",
        "-20000",
        "20001-20000",
        "0-5",
        "1-65536",
        "a-b",
        " 1-2",
        "1-2-3",
        "\u0661-9",
    ],
)
def test_a_wrong_range_is_named(text: str) -> None:
    with pytest.raises(ConfigurationError, match="port_range must be FIRST-LAST"):
        parse_range(text)
