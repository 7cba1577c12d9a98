"""Frames of production's encoders, in a few words."""

from __future__ import annotations

from dlog.testing.kernel.trace import Trace
from dlog.testing.network.frames import Dialect, Said, in_runs
from dlog.testing.network.wiretap import LATE_S, Wiretap
from ledger.wire import messages as m
from ledger.wire import v2, v3
from ledger.wire.constants import FENCE, RECOVERY_ADD
from ledger.wire.entry import ENTRY_HEADER
from ledger.wire.frame import LENGTH_BYTES
from ledger.wire.status import Status
from ledger.wire.write_lac import LedgerLacs

KEY = bytes(20)


def entry(ledger_id: int, entry_id: int, lac: int) -> bytes:
    return ENTRY_HEADER.pack(ledger_id, entry_id, lac, 5) + b"bytes"


def add(entry_id: int, flags: int = 0) -> bytes:
    return v2.encode_request(
        m.AddRequest(flags=flags, master_key=KEY, entry=entry(3, entry_id, entry_id - 1))
    )


def request(dialect: Dialect, frame: bytes) -> str:
    return str(dialect.request(frame[LENGTH_BYTES:]))


def response(dialect: Dialect, frame: bytes) -> str:
    return str(dialect.response(frame[LENGTH_BYTES:]))


def test_version_2_is_shown_by_name() -> None:
    dialect = Dialect()
    assert request(dialect, add(17)) == "ADD 3:17 lac 16"
    assert request(dialect, add(17, RECOVERY_ADD)) == "ADD 3:17 lac 16 (recovery)"
    fence = m.ReadRequest(flags=FENCE, ledger_id=3, entry_id=-1, master_key=KEY)
    assert request(dialect, v2.encode_request(fence)) == "READ 3:last (fence)"
    refused = m.AddResponse(status=Status.EFENCED, ledger_id=3, entry_id=17)
    assert response(dialect, v2.encode_response(refused)) == "ADD 3:17 EFENCED"
    found = m.ReadResponse(status=Status.EOK, ledger_id=3, entry_id=-1, entry=entry(3, 9, 8))
    assert response(dialect, v2.encode_response(found)) == "READ 3:9 lac 8 EOK 37 bytes"


def test_version_3_is_shown_by_name() -> None:
    dialect = Dialect()
    poll = m.V3ReadRequest(ledger_id=3, entry_id=-1, previous_lac=8, timeout_ms=1000)
    asked = m.V3Request(txn_id=1, operation=m.Operation.READ_ENTRY, body=poll)
    assert request(dialect, v3.encode_request(asked)) == "READ 3:last (waits for more than 8)"
    assert request(dialect, LedgerLacs(3, KEY, 20).write(2, 17, bytes(20)).request) == "WRITE_LAC 3 lac 17"
    woken = m.V3ReadResponse(status=Status.EOK, ledger_id=3, entry_id=-1, max_lac=9)
    answer = m.V3Response(txn_id=1, operation=m.Operation.READ_ENTRY, status=Status.EOK, body=woken)
    assert response(dialect, v3.encode_response(answer)) == "READ 3:last lac 9 EOK"
    lac = m.ReadLacResponse(status=Status.EOK, ledger_id=3, last_entry=entry(3, 9, 8))
    answer = m.V3Response(txn_id=1, operation=m.Operation.READ_LAC, status=Status.EOK, body=lac)
    assert response(dialect, v3.encode_response(answer)) == "READ_LAC 3 EOK, last entry 9 with lac 8"


def test_bytes_that_are_no_message_are_counted() -> None:
    assert str(Dialect().request(b"nonsense")).startswith("8 bytes that mean nothing")


def test_adds_of_consecutive_entries_are_one_event() -> None:
    said = [Said("ADD", 3, number, lac=number - 1) for number in (4, 5, 6, 9)]
    assert [str(each) for each in in_runs(said)] == ["ADD 3:4..6 lac 5", "ADD 3:9 lac 8"]
    answers = [Said("ADD", 3, 4, besides="EOK"), Said("ADD", 3, 5, besides="EFENCED")]
    assert in_runs(answers) == answers


def test_what_arrives_late_is_shown_when_it_arrives() -> None:
    now = [0.0]
    trace = Trace(lambda: now[0])
    trace.with_events = True
    tap = Wiretap(trace, lambda: now[0], "writer", "bookie")
    tap.requests.sent(add(4) + add(5))
    tap.requests.received(add(4))
    now[0] = 2 * LATE_S
    tap.requests.received(add(5)[:7])
    tap.requests.received(add(5)[7:])
    assert [line.split(maxsplit=1)[1] for line in trace.timeline().splitlines()] == [
        "writer  -> bookie  ADD 3:4..5 lac 4",
        "bookie  <- writer  ADD 3:5 lac 4, after 0.1 s",
    ]
