"""What a bookie logs of peers that sent no valid request."""

from __future__ import annotations

import pytest

from bookie_server.net.bad_peers import ADDRESSES_MAX, REPORT_S, BadPeers
from ledger.errors import ProtocolError

ERROR = ProtocolError("a frame of 1195725856 bytes")


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return found


def test_the_first_is_named_and_those_after_it_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    peers = BadPeers()
    peers.note("10.0.0.1", ERROR)
    assert lines(caplog) == [
        "closed the connection of 10.0.0.1, which sent no valid request: a frame of 1195725856 bytes"
    ]
    for address in ("10.0.0.2", "10.0.0.3", "10.0.0.2"):
        peers.note(address, ERROR)
    for now in (1.0, 2.0, REPORT_S):
        peers.report_due(now)
    assert lines(caplog) == []
    peers.report_due(1.0 + REPORT_S)
    assert lines(caplog) == [
        "closed 3 more connections that sent no valid request, 2 of them from 10.0.0.2; the last one: "
        "a frame of 1195725856 bytes"
    ]
    peers.note("10.0.0.9", ERROR)
    peers.report_due(REPORT_S + 30.0)
    assert lines(caplog) == []
    peers.report()
    assert len(lines(caplog)) == 1


def test_after_a_quiet_minute_the_next_one_is_named_immediately(caplog: pytest.LogCaptureFixture) -> None:
    peers = BadPeers()
    peers.note("10.0.0.1", ERROR)
    peers.report_due(1.0)
    peers.report_due(1.0 + REPORT_S)
    assert len(lines(caplog)) == 1
    peers.note("10.0.0.2", ERROR)
    assert ["10.0.0.2" in line for line in lines(caplog)] == [True]


def test_any_number_of_addresses_takes_little_memory(caplog: pytest.LogCaptureFixture) -> None:
    peers = BadPeers()
    count = 3 * ADDRESSES_MAX
    for number in range(1 + count):
        peers.note(f"fe80::{number:x}", ERROR)
    peers.report()
    assert lines(caplog)[-1].startswith(f"closed {count} more connections that sent no valid request, 1 of ")
