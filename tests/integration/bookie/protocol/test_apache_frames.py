"""Single requests that Apache's bookie was asked, among them many malformed ones: same answers, same closes.

The frames were captured from Apache BookKeeper 4.18.0 and depend on one another in file order
(tests/vectors/README.md). DIFFERENCES names every answer that is not the same, and why it is legal.
"""

from __future__ import annotations

import pytest

from ledger.wire import v3
from ledger.wire.messages import BookieInfoResponse
from tests.helpers.bookie.entries import add, fence
from tests.helpers.bookie.raw_client import ConnectionClosed, RawClient
from tests.helpers.processes.bookie import BookieProcess
from tests.helpers.wire.golden_frames import GoldenFrame, load, wire_frames

pytestmark = pytest.mark.integration

OTHER_SETUP = (
    "list_on_db_ledger_storage",
    "list_ok",
    "list_empty_ledger",
    "read_only_",
    "unauthenticated_",
    "auth_wrong_plugin",
    "auth_bad_token",
    "start_tls_ok",
    "limbo_",
    "deleted_ledger_",
    "java/",
    "bookie_info_1",
    "bookie_info_2",
    "bookie_info_3",
)
"""Names of cases that ran against a bookie with other settings, other storage or disks, or a history."""

DIFFERENCES = {
    "v3/read_lac_after_lower": (
        "Apache returns the explicit LAC written last, even when it is lower than an earlier one. Ours never "
        "goes back: a reader that has seen the higher one must not see it vanish."
    ),
}


def cases(protocol: str) -> list[tuple[GoldenFrame, GoldenFrame | None]]:
    """Requests that any fresh bookie can be asked, each with the answer Apache gave."""
    frames = {each.name: each for each in wire_frames(protocol)}
    found = []
    for vector in load(f"wire-{protocol}.json"):
        name = vector["name"]
        if not name.endswith("/request") or name.startswith(OTHER_SETUP):
            continue
        if "too_many_requests" in name or "io_error" in name:
            continue
        answer = frames[vector["answer"]] if vector["answer"] else None
        found.append((frames[name], answer))
    return found


def outcome(bookie: BookieProcess, request: GoldenFrame, *, answered: bool) -> bytes:
    """The answer, or nothing if the bookie closed the connection as it should."""
    with RawClient(bookie.port) as client:
        client.send(request.frame)
        if not answered:
            client.expect_close()
            return b""
        try:
            return client.frame()
        except ConnectionClosed:
            return b""


def differing(bookie: BookieProcess, protocol: str) -> set[str]:
    found = set()
    for request, answer in cases(protocol):
        expected = answer.frame if answer is not None else b""
        got = outcome(bookie, request, answered=answer is not None)
        if got != expected:
            name = request.name.removesuffix("/request")
            print(f"{protocol}/{name}: got {got.hex()}, Apache sent {expected.hex()}")
            found.add(f"{protocol}/{name}")
    return found


def prepare(bookie: BookieProcess) -> None:
    """The entries that were there before the first captured frame."""
    with RawClient(bookie.port) as client:
        for ledger_id in (71000, 71100):
            for entry_id in range(3):
                client.ask(add(ledger_id, entry_id))
        client.ask(add(71103, 1, lac=0))
        for entry_id in (0, 1, 3, 4, 6):
            client.ask(add(81000, entry_id))
        client.ask(fence(81001))


def test_single_requests_are_answered_as_by_apache(bookie: BookieProcess) -> None:
    prepare(bookie)
    found = differing(bookie, "v2") | differing(bookie, "v3")
    assert found == set(DIFFERENCES), "see the printed frames"


def test_bookie_info_brings_what_was_asked_for(bookie: BookieProcess) -> None:
    frames = {each.name: each for each in wire_frames("v3")}
    for requested, wants_total, wants_free in ((1, True, False), (2, False, True), (3, True, True)):
        with RawClient(bookie.port) as client:
            answer = v3.decode_response(client.ask(frames[f"bookie_info_{requested}/request"].frame)[4:])
        assert isinstance(answer.body, BookieInfoResponse)
        assert (answer.body.total_bytes is not None, answer.body.free_bytes is not None) == (
            wants_total,
            wants_free,
        )
