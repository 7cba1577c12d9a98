"""A repeated entry is recognised by its payload, not by its envelope."""

import hashlib
import struct
import zlib

import pytest

from bookie_server.storage.repeated_adds import ComparedRun, compare_run, same_payload
from tests.helpers.bookie.storage import EntryRun, make_entry


def entry_with(digest: str, lac: int, payload: bytes, length: int = 5) -> bytes:
    header = struct.pack(">qqqq", 1, 2, lac, length)
    digests = {
        "crc32c": bytes(make_entry(1, 2, lac=lac, payload=payload))[32:36],
        "crc32": struct.pack(">q", zlib.crc32(header + payload)),
        "mac": hashlib.sha1(header + payload).digest(),
        "dummy": b"",
    }
    if digest == "crc32c":
        return bytes(make_entry(1, 2, lac=lac, payload=payload))
    return header + digests[digest] + payload


@pytest.mark.parametrize("digest", ["crc32c", "crc32", "mac", "dummy"])
def test_another_lac_does_not_make_another_payload(digest: str) -> None:
    payload = b"some payload that is longer than any digest"
    assert same_payload(entry_with(digest, 1, payload), entry_with(digest, 0, payload))
    assert same_payload(entry_with(digest, 1, payload), entry_with(digest, 1, payload))


@pytest.mark.parametrize("digest", ["crc32c", "crc32", "mac", "dummy"])
def test_another_payload_is_another_payload(digest: str) -> None:
    payload = b"some payload that is longer than any digest"
    other = payload[:-1] + b"?"
    assert not same_payload(entry_with(digest, 1, payload), entry_with(digest, 0, other))
    assert not same_payload(entry_with(digest, 1, payload), entry_with(digest, 1, other))
    assert not same_payload(entry_with(digest, 1, payload), entry_with(digest, 1, payload + b"x"))


@pytest.mark.parametrize("digest", ["crc32c", "crc32"])
def test_a_difference_in_the_first_byte_counts(digest: str) -> None:
    assert not same_payload(entry_with(digest, 1, b"abcdef"), entry_with(digest, 0, b"Xbcdef"))


def test_another_cumulative_length_is_another_entry() -> None:
    assert not same_payload(entry_with("dummy", 1, b"abc", 3), entry_with("dummy", 0, b"abc", 4))


@pytest.mark.parametrize("size", range(24, 52))
def test_an_entry_too_short_for_a_mac_is_compared_byte_by_byte(size: int) -> None:
    """Apache's bookie stores what has a LAC; of such an entry only the LAC may differ in a repetition."""
    entry = struct.pack(">qqq", 1, 2, 1) + bytes(range(size - 24))
    other_lac = struct.pack(">qqq", 1, 2, 0) + entry[24:]
    assert same_payload(entry, entry)
    assert same_payload(entry, other_lac)
    assert not same_payload(entry, entry + b"x")
    for changed in range(24, size):
        different = other_lac[:changed] + b"?" + other_lac[changed + 1 :]
        assert not same_payload(entry, different), changed


def test_a_run_is_sorted_into_new_repeated_and_conflicting_entries() -> None:
    def entry(entry_id: int, payload: bytes = b"payload", lac: int = -1) -> bytes:
        return bytes(make_entry(1, entry_id, lac=lac, payload=payload))

    stored = {3: entry(3), 4: entry(4)}
    run = EntryRun([7, 3, 4, 5], [entry(7), entry(3, lac=2), entry(4, b"others!"), entry(5)])
    assert compare_run(run, stored.get) == ComparedRun(
        [5, 7], [entry(5), entry(7)], [entry(3, lac=2)], frozenset({4})
    )


def test_an_id_that_comes_twice_in_a_run_with_other_bytes_is_a_conflict() -> None:
    first, second = bytes(make_entry(1, 2, payload=b"one")), bytes(make_entry(1, 2, payload=b"two"))
    compared = compare_run(EntryRun([2, 2], [first, second]), lambda _: None)
    assert (compared.entries, compared.conflicts) == ([first], frozenset({2}))
