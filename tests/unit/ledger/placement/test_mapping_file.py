"""Locations of bookies from a file, and the errors of lines that make no sense."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger.errors import ConfigurationError, InvalidNameError
from ledger.model import NETWORK_LOCATION, BookieId, BookieInfo, check_location
from ledger.placement.mapping_file import location_of, parse_mapping, read_mapping


def test_a_line_is_an_id_or_a_host_and_a_location() -> None:
    text = (
        "# the cellar\n10.0.0.1:3181 /cellar/r1\nstore2\t/cellar/r2  # by host\n\n10.0.0.1:3181 /cellar/r1\n"
    )
    assert parse_mapping(text, "f") == {"10.0.0.1:3181": ("cellar", "r1"), "store2": ("cellar", "r2")}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a:1 /r\nb:1", "line 2 of mapping file f must be a bookie id or host and a location, got 'b:1'"),
        ("a:1 /r /s", "line 1 of mapping file f must be"),
        ("a:1 r1", "line 1 of mapping file f: location 'r1' is not valid: write /rack or /zone/rack"),
        ("a:1 //r1", "location '//r1' is not valid"),
        ("a:1 /", "location '/' is not valid"),
        ("a:1 /r\u00e4ck", "is not valid"),
        ("a/b /r1", "line 1 of mapping file f: bookie id 'a/b' is not valid"),
        ("readonly /r1", "bookie id 'readonly' is not valid"),
        (". /r1", "bookie id '.' is not valid"),
        (".. /r1", "bookie id '..' is not valid"),
        ("a:1 /r1\na:1 /r2", "line 2 of mapping file f gives a:1 a second location, /r2"),
        ("a:1 " + "/x" * 9, "is not valid"),
        ("\x00\x01", "line 1 of mapping file f must be"),
    ],
)
def test_nonsense_is_refused_with_its_line(text: str, says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_mapping(text, "f")
    assert says in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path, says in ((tmp_path / "none", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(ConfigurationError, match=f"cannot read mapping file {path}: {says}"):
            read_mapping(path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="is not UTF-8 text"):
        read_mapping(tmp_path / "binary")


def test_the_file_goes_before_what_a_bookie_publishes_and_its_id_before_its_host() -> None:
    info = BookieInfo(
        bookie_id=BookieId("b1"), host="h", port=1, properties=((NETWORK_LOCATION, "/z/published"),)
    )
    assert location_of(info, {}) == ("z", "published")
    assert location_of(info, {"h": ("host",)}) == ("host",)
    assert location_of(info, {"h": ("host",), "b1": ("id",)}) == ("id",)


@pytest.mark.parametrize("published", ["", "rack", "/", "/a b", "/" + "x" * 255])
def test_a_bookie_that_publishes_nonsense_has_no_location(published: str) -> None:
    info = BookieInfo(bookie_id=BookieId("b1"), host="h", port=1, properties=((NETWORK_LOCATION, published),))
    assert info.location == ()


def test_a_location_has_one_to_eight_names() -> None:
    assert check_location("/rack") == ("rack",)
    assert check_location("/a/b/c/d/e/f/g/h") == tuple("abcdefgh")
    with pytest.raises(InvalidNameError):
        check_location("/a\n")
