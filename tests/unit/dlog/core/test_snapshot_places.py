"""Where the ledgers of a sink have the snapshot of the log's producers (docs/log-semantics.md#rule-36)."""

from __future__ import annotations

from dlog.core.snapshot_places import SnapshotPlaces
from dlog.format.entry import ELSEWHERE, SnapshotPlace

MIB = 1 << 20


def test_a_log_without_producers_has_none() -> None:
    places = SnapshotPlaces(None)
    assert [places.next(10), places.next(10)] == [None, None]


def test_what_could_not_be_read_is_elsewhere() -> None:
    places = SnapshotPlaces(SnapshotPlace(ELSEWHERE))
    assert [places.next(10), places.next(10)] == [SnapshotPlace(ELSEWHERE)] * 2


def test_every_entry_says_how_far_back_it_is_and_it_is_repeated() -> None:
    first = SnapshotPlace(0, b"s" * 44)
    places = SnapshotPlaces(first)
    found = [places.next(6 * MIB) for _ in range(5)]
    assert found == [first, SnapshotPlace(1), SnapshotPlace(2), first, SnapshotPlace(1)]


def test_a_large_one_is_repeated_less_often() -> None:
    first = SnapshotPlace(0, b"s" * 44 * 50_000)
    places = SnapshotPlaces(first)
    found = [places.next(16 * MIB) for _ in range(4)]
    assert found == [first, SnapshotPlace(1), SnapshotPlace(2), first]
