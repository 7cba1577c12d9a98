"""The ports that the servers of the tests get."""

from __future__ import annotations

from bookie_server.net.port import parse_range
from tests.helpers.processes.ports import free_ports, own_ports, ports_to_choose, range_text


def test_servers_that_do_not_listen_yet_have_different_ports() -> None:
    given = [port for _ in range(300) for port in free_ports(1)]
    assert len(set(given)) == len(given)


def test_no_bookie_chooses_a_port_that_a_server_was_given() -> None:
    chosen = parse_range(range_text(ports_to_choose()))
    assert chosen == ports_to_choose()
    assert not set(free_ports(300)) & set(chosen)


def test_two_workers_share_no_port() -> None:
    first, second = (
        own_ports({"PYTEST_XDIST_WORKER_COUNT": "2", "PYTEST_XDIST_WORKER": f"gw{number}"})
        for number in (0, 1)
    )
    assert not set(first) & set(second)
