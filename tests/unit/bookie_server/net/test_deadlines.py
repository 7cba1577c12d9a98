"""Who is cut off, and who is not to blame."""

from __future__ import annotations

from dataclasses import replace

from bookie_server.config import Limits
from bookie_server.net.deadlines import PeerActivity, overdue

LIMITS = Limits(first_frame_s=5, frame_progress_s=30, frame_bytes_per_s=1000, idle_s=600, send_stall_s=20)
QUIET = PeerActivity(
    has_spoken=True,
    partial_bytes=0,
    idle=True,
    held=False,
    crowds=False,
    frame_started=0.0,
    last_received=0.0,
    stalled_since=None,
    blocks_reads=False,
)


def test_idleness_counts_only_when_nothing_is_pending() -> None:
    assert overdue(LIMITS, 600.0, QUIET) is None
    assert overdue(LIMITS, 600.1, QUIET) is not None
    assert overdue(LIMITS, 6000.0, replace(QUIET, idle=False)) is None


def test_a_peer_must_send_something_soon() -> None:
    assert overdue(LIMITS, 5.1, replace(QUIET, has_spoken=False)) is not None


def test_a_frame_must_progress() -> None:
    """One byte now and then does not keep a connection; a steady slow line does."""
    slow_loris = replace(QUIET, partial_bytes=10, last_received=30.0)
    assert overdue(LIMITS, 30.0, slow_loris) is None
    assert overdue(LIMITS, 31.0, slow_loris) is not None
    assert overdue(LIMITS, 31.0, replace(slow_loris, partial_bytes=20_000)) is None


def test_our_own_pause_is_not_the_peers_fault() -> None:
    assert overdue(LIMITS, 1000.0, replace(QUIET, partial_bytes=10, held=True)) is None


def test_a_peer_that_takes_no_answers_is_cut_off() -> None:
    stalled = replace(QUIET, held=True, idle=False, stalled_since=100.0)
    assert overdue(LIMITS, 120.0, stalled) is None
    assert overdue(LIMITS, 120.1, stalled) is not None


def test_a_stalled_peer_is_cut_off_sooner_while_others_wait_for_it() -> None:
    stalled = replace(QUIET, held=True, idle=False, stalled_since=100.0, blocks_reads=True)
    assert overdue(LIMITS, 102.0, stalled) is None
    assert overdue(LIMITS, 102.1, stalled) is not None


def test_a_frame_with_a_place_must_progress_faster_while_others_wait_for_one() -> None:
    slow = replace(QUIET, partial_bytes=100_000, crowds=True, last_received=5.0)
    assert overdue(LIMITS, 5.0, slow) is None
    assert overdue(LIMITS, 6.1, slow) is not None, "it was silent for a second"
    assert overdue(LIMITS, 6.0, replace(slow, last_received=6.0)) is not None, "it goes on, but slowly"
    assert overdue(LIMITS, 6.1, replace(slow, held=True)) is None
