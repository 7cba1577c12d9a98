"""Paths and values of the ZooKeeper driver, against Apache's (docs/bookkeeper.md#zookeeper-paths)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import MetadataFormatError
from ledger.metadata.format.layout import LayoutType
from ledger.metadata.format.repair import decode_mark
from ledger.metadata.repair_store import UnderReplicated
from ledger.metadata.zookeeper.paths import Paths, high_bits_of, parents, under_replicated_id
from ledger.metadata.zookeeper.record_values import NO_RECORD, decode_value, encode_value
from ledger.model import LedgerId

PATHS = Paths("/ledgers")


@pytest.mark.parametrize(
    ("ledger_id", "path"),
    [
        (12345, "/0000/0000/0000/3039/urL0000012345"),
        (4294967301, "/0000/0001/0000/0005/urL4294967301"),
        (2**63 - 1, "/7fff/ffff/ffff/ffff/urL9223372036854775807"),
    ],
)
def test_marks_stand_under_the_hexadecimal_groups_of_the_id(ledger_id: int, path: str) -> None:
    assert PATHS.under_replicated(ledger_id) == "/ledgers/underreplication/ledgers" + path
    assert under_replicated_id(path.rpartition("/")[2]) == ledger_id


def test_names_that_are_no_marks_and_no_counters_are_passed_over() -> None:
    for name in ("urL", "urL123", "urLx000000001", "L0000000001", f"urL{2**63}", "ID-0000000001"):
        assert under_replicated_id(name) is None
    assert high_bits_of("HOB-0000000007") == 7
    for name in ("HOB-7", "HOB-", "ID-0000000007", "HOB-00000000070"):
        assert high_bits_of(name) is None


def test_the_nodes_of_a_cluster() -> None:
    assert PATHS.ledger(LayoutType.HIERARCHICAL, 2147483647) == "/ledgers/000/0000/0021/4748/L3647"
    assert PATHS.short_ids(LayoutType.FLAT) == "/ledgers"
    assert PATHS.short_ids(LayoutType.LEGACY_HIERARCHICAL) == "/ledgers/idgen"
    assert PATHS.high_bits(1) == "/ledgers/idgen-long/HOB-0000000001"
    assert PATHS.record("/dlog/default/a") == "/ledgers-records/dlog/default/a"
    assert PATHS.record("/") == "/ledgers-records"


def test_parents_come_from_the_top_down() -> None:
    assert parents("/ledgers/00/0001/L0002", "/ledgers") == ["/ledgers/00", "/ledgers/00/0001"]
    assert parents("/ledgers/L0000000001", "/ledgers") == []
    assert parents("/a/b/ledgers", "") == ["/a", "/a/b"]


@given(st.binary(max_size=5))
def test_every_value_comes_back_and_none_looks_like_a_parent(value: bytes) -> None:
    data = encode_value(value)
    assert data != NO_RECORD
    assert decode_value(data) == value


def test_a_node_without_data_is_no_record() -> None:
    assert decode_value(NO_RECORD) is None
    assert encode_value(b"plain") == b"plain"


def test_a_mark_names_the_bookies_whose_copies_are_missing() -> None:
    data = b'replica: "10.0.0.1:3181"\nreplica: "b-2"\nctime: 1700000000000\n'
    expected = UnderReplicated(LedgerId(7), ("10.0.0.1:3181", "b-2"), 1700000000000)  # type: ignore[arg-type]
    assert decode_mark(LedgerId(7), data) == expected
    assert decode_mark(LedgerId(7), b"") == UnderReplicated(LedgerId(7), (), None)
    for damaged in (b"\xff", b"replica: 5", b'replica: "a/b"'):
        with pytest.raises(MetadataFormatError, match="ledger 7"):
            decode_mark(LedgerId(7), damaged)
