"""The port of a bookie that was given none."""

from __future__ import annotations

import random

from bookie_server.net.port import ports_to_try


def test_no_connection_of_the_machine_can_take_it_by_default() -> None:
    *tried, last = ports_to_try(random.Random(1))
    assert len(set(tried)) == len(tried) >= 5
    assert all(1024 < port < 32_768 for port in tried)
    assert last == 0  # should others listen on all of these


def test_two_bookies_try_different_ones() -> None:
    assert set(ports_to_try(random.Random(1))) & set(ports_to_try(random.Random(2))) == {0}
