"""LAYOUT and the ledger paths of every layout, against Apache's own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import ConfigurationError, LayoutMismatchError, MetadataFormatError
from ledger.metadata.format.layout import Layout, LayoutType, decode_layout, encode_layout, obey
from ledger.metadata.format.ledger import HEADER
from ledger.metadata.ledger_paths import is_first_level, ledger_id_of, ledger_path
from ledger.model import LEDGER_ID_MAX
from tests.helpers.metadata import vectors

TABLE = [
    (0, "/00/0000/L0000", "/000/0000/0000/0000/L0000", "/L0000000000"),
    (12345, "/00/0001/L2345", "/000/0000/0000/0001/L2345", "/L0000012345"),
    (1234567890, "/12/3456/L7890", "/000/0000/0012/3456/L7890", "/L1234567890"),
    (2147483646, "/21/4748/L3646", "/000/0000/0021/4748/L3646", "/L2147483646"),
    (2147483647, "/000/0000/0021/4748/L3647", "/000/0000/0021/4748/L3647", "/L2147483647"),
]


def test_apaches_layout_both_ways() -> None:
    (data,) = (data for path, data, _ in vectors.nodes() if path == "/LAYOUT")
    assert decode_layout(data) == Layout(LayoutType.HIERARCHICAL)
    assert encode_layout(Layout()) == data


@pytest.mark.parametrize("kind", LayoutType)
@pytest.mark.parametrize("version", [1, 2])
def test_every_layout_round_trips(kind: LayoutType, version: int) -> None:
    assert decode_layout(encode_layout(Layout(kind, version))) == Layout(kind, version)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"2",
        b"3\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1",
        b"2\nhierarchical:1",
        b"1\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1",
        b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:2",
        b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1\n",
        b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory",
        b"2\n\xff:1",
        b"2\n" + b"x" * 5000,
    ],
)
def test_unknown_layouts_are_refused(data: bytes) -> None:
    with pytest.raises(MetadataFormatError):
        decode_layout(data)


def test_a_layout_is_obeyed_and_a_contradiction_refused() -> None:
    assert obey(Layout(LayoutType.FLAT), None) is LayoutType.FLAT
    assert obey(Layout(LayoutType.FLAT), LayoutType.FLAT) is LayoutType.FLAT
    with pytest.raises(LayoutMismatchError, match=r"flat.*hierarchical"):
        obey(Layout(LayoutType.FLAT), LayoutType.HIERARCHICAL)


@pytest.mark.parametrize(("ledger_id", "hierarchical", "long", "flat"), TABLE)
def test_the_table_of_the_protocol(ledger_id: int, hierarchical: str, long: str, flat: str) -> None:
    for kind, path in (
        (LayoutType.HIERARCHICAL, hierarchical),
        (LayoutType.LONG_HIERARCHICAL, long),
        (LayoutType.FLAT, flat),
    ):
        assert ledger_path(kind, ledger_id) == path
        assert ledger_id_of(kind, path) == ledger_id


def test_apaches_paths_both_ways() -> None:
    for entry in vectors.load()["ledger_paths"]:
        assert ledger_path(LayoutType.HIERARCHICAL, entry["ledgerId"]) == entry["hierarchical"]
        assert ledger_id_of(LayoutType.HIERARCHICAL, entry["hierarchical"]) == entry["ledgerId"]
    for path, data, _ in vectors.nodes():
        if data.startswith(HEADER):
            assert ledger_path(LayoutType.HIERARCHICAL, ledger_id_of(LayoutType.HIERARCHICAL, path)) == path


@given(st.sampled_from(LayoutType), st.integers(0, LEDGER_ID_MAX))
def test_paths_round_trip_where_there_is_room(kind: LayoutType, ledger_id: int) -> None:
    try:
        path = ledger_path(kind, ledger_id)
    except ConfigurationError:
        assert kind in (LayoutType.FLAT, LayoutType.LEGACY_HIERARCHICAL) and ledger_id >= 10**10
        return
    assert ledger_id_of(kind, path) == ledger_id
    assert is_first_level(kind, path.split("/")[1])


@pytest.mark.parametrize("ledger_id", [-1, 2**63])
def test_ids_out_of_range_have_no_path(ledger_id: int) -> None:
    for kind in LayoutType:
        with pytest.raises(ConfigurationError):
            ledger_path(kind, ledger_id)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/00/0000/0000",
        "/00/0000/L000",
        "/00/0000/L00000",
        "/00/0000/L0000/",
        "/21/4748/L3647",
        "/000/0000/0000/0000/L0001",
        "/999/9999/9999/9999/L9999",
        "/\u0660\u0660/0000/L0000",
    ],
)
def test_other_paths_are_no_ledgers(path: str) -> None:
    """Also ids in a form that the layout never uses for them, and digits that are not ASCII."""
    with pytest.raises(MetadataFormatError):
        ledger_id_of(LayoutType.HIERARCHICAL, path)


def test_walkers_skip_what_is_not_a_ledger_tree() -> None:
    for name in (
        "available",
        "cookies",
        "LAYOUT",
        "INSTANCEID",
        "underreplication",
        "idgen",
        "ID-0000000001",
    ):
        assert not any(is_first_level(kind, name) for kind in LayoutType)
    assert is_first_level(LayoutType.HIERARCHICAL, "00") and is_first_level(LayoutType.HIERARCHICAL, "000")
    assert not is_first_level(LayoutType.LEGACY_HIERARCHICAL, "000")


@pytest.mark.parametrize(
    "data", [b"", b"\xff\x00garbage", b"garbage\nrest:1", b"0\nx:1", b"2", b"2\nnonsense"]
)
def test_a_damaged_layout_asks_for_a_backup_and_not_for_a_newer_version(data: bytes) -> None:
    with pytest.raises(MetadataFormatError, match="restore it from a backup") as raised:
        decode_layout(data)
    assert "use a newer version" not in str(raised.value) or data == b"2\nnonsense"
    assert raised.value.newer_version is None


def test_a_layout_of_a_newer_format_asks_for_a_newer_version() -> None:
    with pytest.raises(
        MetadataFormatError, match="format '3', this program reads 1 and 2: use a newer"
    ) as raised:
        decode_layout(b"3" + encode_layout(Layout())[1:])
    assert raised.value.newer_version == 3
