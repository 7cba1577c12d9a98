"""Cookies: Apache's own both ways, old layouts, damage, and when two cookies match."""

from __future__ import annotations

from dataclasses import replace

import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import InvalidNameError, MetadataFormatError
from ledger.metadata.format.cookie import Cookie, cookie_differences, decode_cookie, encode_cookie
from ledger.metadata.format.data_formats_pb2 import CookieFormat
from ledger.model import BookieId
from tests.helpers.metadata import vectors

COOKIES = [data for path, data, _ in vectors.nodes() if path.startswith("/cookies/")]
COOKIE = Cookie(
    bookie_id=BookieId("b:1"),
    journal_dirs=("/j1", "/j2"),
    ledger_dirs=("/l1", "/l2"),
    index_dirs=("/i",),
    instance_id="e1d3",
)


@pytest.mark.parametrize("data", COOKIES)
def test_apaches_cookies_are_rebuilt_byte_for_byte(data: bytes) -> None:
    assert encode_cookie(decode_cookie(data)) == data


def test_apaches_cookie_is_decoded() -> None:
    assert decode_cookie(COOKIES[0]) == Cookie(
        bookie_id=BookieId("bookie-one"),
        journal_dirs=("/bk/journal",),
        ledger_dirs=("/bk/ledgers1", "/bk/ledgers2"),
        index_dirs=("/bk/index",),
        instance_id="739e7644-d937-4a61-881f-6f3e7382b3ac",
    )


@pytest.mark.parametrize("cookie", [COOKIE, replace(COOKIE, index_dirs=(), instance_id=None, version=4)])
def test_round_trip(cookie: Cookie) -> None:
    assert decode_cookie(encode_cookie(cookie)) == cookie


def test_the_role_of_a_directory_is_a_comment_that_apaches_reader_passes_over() -> None:
    plain = replace(COOKIE, index_dirs=(), instance_id=None)
    data = encode_cookie(replace(plain, role="journal"))
    assert data == encode_cookie(plain) + b"# directory: journal\n"
    assert decode_cookie(data) == replace(plain, role="journal")
    message = CookieFormat()
    text_format.Parse(data.decode().partition("\n")[2], message)  # as strict as BookKeeper's
    assert message.bookieHost == "b:1"
    assert cookie_differences(decode_cookie(data), plain) == []


@pytest.mark.parametrize("role", ["", "Journal", "a b", "journal\n# directory: ledger"])
def test_an_impossible_role_is_refused(role: str) -> None:
    with pytest.raises(InvalidNameError):
        encode_cookie(replace(COOKIE, role=role))
    with pytest.raises(MetadataFormatError):
        decode_cookie(encode_cookie(COOKIE) + f"# directory: {role}\n".encode())


def test_version_3_is_three_plain_lines() -> None:
    cookie = decode_cookie(b"3\nb:1\n/j1\n1\t/l1\n")
    assert cookie == Cookie(bookie_id=BookieId("b:1"), journal_dirs=("/j1",), ledger_dirs=("/l1",), version=3)
    assert encode_cookie(cookie) == b"3\nb:1\n/j1\n1\t/l1\n"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"2\n",
        b"6\nbookieHost: 'a'",
        b"five\n",
        b"5",
        b"5\nbookieHost: 'a' journalDir: '/j'",
        b"5\nbookieHost: 'a' journalDir: '/j' ledgerDirs: '2\\t/l'",
        b"5\nbookieHost: 'a' journalDir: '/j' ledgerDirs: ''",
        b"5\nbookieHost: 'a b' journalDir: '/j' ledgerDirs: '1\\t/l'",
        b"5\n" + b"a{" * 10_000,
        b"5\n\xff",
        b"5\nbookieHost: '\\o' journalDir: '/j' ledgerDirs: '1\\t/l'",
        b"5\nbookieHost: '\\777' journalDir: '/j' ledgerDirs: '1\\t/l'",
        b"5\n" + b" " * 70_000,
        b"3\na\n/j\n",
    ],
)
def test_malformed_cookies_are_refused(data: bytes) -> None:
    with pytest.raises(MetadataFormatError):
        decode_cookie(data)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"6\n", "layout version '6', this program reads 3 to 5: use a newer version"),
        (b"garbage\n", "damaged, since it begins with 'garbage'"),
        (b"", "damaged, since it begins with ''"),
    ],
)
def test_garbage_is_not_called_a_newer_version(data: bytes, says: str) -> None:
    with pytest.raises(MetadataFormatError, match=says):
        decode_cookie(data)


@given(st.sampled_from(COOKIES), st.integers(0, 200), st.integers(0, 255))
def test_damaged_cookies_never_surprise(data: bytes, position: int, byte: int) -> None:
    damaged = bytearray(data)
    damaged[position % len(data)] = byte
    try:
        encode_cookie(decode_cookie(bytes(damaged)))
    except (MetadataFormatError, InvalidNameError):
        return


@pytest.mark.parametrize("path", ["", "/a\tb", "/a\nb"])
def test_directories_that_a_cookie_cannot_hold_are_refused(path: str) -> None:
    with pytest.raises(InvalidNameError):
        encode_cookie(replace(COOKIE, ledger_dirs=(path,)))
    with pytest.raises(InvalidNameError):
        encode_cookie(replace(COOKIE, journal_dirs=("/a,b",)))


def test_equal_cookies_do_not_differ_whatever_their_version() -> None:
    assert cookie_differences(COOKIE, replace(COOKIE, version=4)) == []
    same_index = replace(COOKIE, index_dirs=COOKIE.ledger_dirs)
    assert cookie_differences(same_index, replace(COOKIE, index_dirs=())) == []


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"bookie_id": BookieId("c:1")}, "bookie id"),
        ({"instance_id": None}, "instance id"),
        ({"journal_dirs": ("/j1",)}, "journal"),
        ({"ledger_dirs": ("/l2", "/l1")}, "ledger"),
        ({"index_dirs": ()}, "index"),
    ],
)
def test_each_difference_is_named(change: dict[str, object], word: str) -> None:
    (phrase,) = cookie_differences(COOKIE, replace(COOKIE, **change))
    assert word in phrase


def test_expansion_allows_more_directories_here() -> None:
    bigger = replace(COOKIE, ledger_dirs=("/l1", "/l2", "/l3"))
    assert cookie_differences(bigger, COOKIE, expansion=True) == []
    assert cookie_differences(COOKIE, bigger, expansion=True) != []


def test_a_cookie_that_could_not_be_read_again_is_not_written() -> None:
    """Of many directories with long paths: the bookie would never start again."""

    def having(count: int) -> Cookie:
        more = tuple(f"/disk-{number}/{'ü' * 1000}" for number in range(count))
        return Cookie(bookie_id=BookieId("a:1"), journal_dirs=("/journal",), ledger_dirs=("/ledgers", *more))

    assert decode_cookie(encode_cookie(having(32))) == having(32)
    with pytest.raises(
        InvalidNameError, match=r"with 35 directories takes 6\d{4} bytes, above the limit of 65536"
    ):
        encode_cookie(having(33))
