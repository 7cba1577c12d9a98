"""Entries as Arrow arrays: whatever way they are decoded, the messages are those that dlog.format finds."""

from __future__ import annotations

from random import Random

import pytest

from dlog.arrow import entry_columns
from dlog.arrow.entry_columns import EntryColumns, decode_columns
from dlog.errors import EntryFormatError
from dlog.format.entry import Codec, decode_entry, encode_entry
from dlog.format.message import Columns, Flat

FRAMING = (0, 1, 2, 0x90, 0xC0, 0xC4, 0xC5, 0xC6)
SIZES = (0, 1, 20, 191, 192, 193, 255, 256, 300, 65_535, 65_536)


def entry_of(columns: Columns, codec: Codec = Codec.NONE) -> bytes:
    return b"".join(encode_entry(columns, epoch=1, append_time_us=17, codec=codec))


def table(count: int, key: bytes | None, payload: bytes | None, headers: Flat | None = None) -> Columns:
    """Messages of equal sizes, each with its number in it."""

    def numbered(value: bytes | None) -> list[bytes | None]:
        if value is None:
            return [None] * count
        return [(b"%d" % number + value)[: len(value)] for number in range(count)]

    return Columns(numbered(key), numbered(payload), [headers or ()] * count)


def as_lists(found: EntryColumns) -> tuple[list[bytes | None], list[bytes | None], list[Flat]]:
    headers = found.headers if found.headers is not None else [()] * found.count
    return found.keys.to_pylist(), found.payloads.to_pylist(), headers


def expected(entry: bytes) -> tuple[list[bytes | None], list[bytes | None], list[Flat]]:
    _, columns = decode_entry(entry)
    return list(columns.keys), list(columns.payloads), list(columns.headers)


@pytest.fixture
def shortcuts(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each entry was taken as a table."""
    taken: list[bool] = []
    original = entry_columns._of_equal_sizes

    def noted(*given: object) -> object:
        found = original(*given)  # type: ignore[arg-type]
        taken.append(found is not None)
        return found

    monkeypatch.setattr(entry_columns, "_of_equal_sizes", noted)
    return taken


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("key", [None, b"", b"k", b"k" * 192, b"k" * 300], ids=lambda key: str(key)[:6])
def test_messages_of_equal_sizes_are_a_table(size: int, key: bytes | None, shortcuts: list[bool]) -> None:
    for payload in (b"p" * size, None):
        entry = entry_of(table(3, key, payload))
        assert as_lists(decode_columns(1, 2, entry)) == expected(entry)
    assert shortcuts == [True, True]


@pytest.mark.parametrize(
    "columns",
    [
        Columns([None, None], [b"a", b"bb"], [(), ()]),
        Columns([None, b"k"], [b"aaa", b"b"], [(), ()]),
        Columns([b"kk", b"k"], [b"a", b"bb"], [(), ()]),
        Columns([None, None], [b"a", None], [(), ()]),
        Columns([b"", None], [None, b""], [(), ()]),
        table(3, None, b"payload", [b"name", b"value"]),
    ],
)
def test_other_messages_are_decoded_one_by_one(columns: Columns, shortcuts: list[bool]) -> None:
    entry = entry_of(columns)
    assert as_lists(decode_columns(1, 2, entry)) == expected(entry)
    assert shortcuts == [False]


def test_compressed_messages_are_decoded_one_by_one(shortcuts: list[bool]) -> None:
    pytest.importorskip("zstandard")
    entry = entry_of(table(100, None, b"p" * 50), Codec.ZSTD)
    assert as_lists(decode_columns(1, 2, entry)) == expected(entry)
    assert shortcuts == []


@pytest.mark.parametrize("seed", range(40))
def test_damaged_bytes_are_taken_or_refused_as_the_decoder_takes_or_refuses_them(seed: int) -> None:
    choose = Random(seed)
    size = choose.choice((0, 1, 3, 192, 256))
    key = choose.choice((None, b"", b"k", b"\xc0" * 192))
    whole = entry_of(table(choose.randint(1, 4), key, choose.randbytes(size)))
    for _ in range(150):
        entry = bytearray(whole)
        for _ in range(choose.randint(1, 2)):
            entry[choose.randrange(len(entry))] = choose.choice(
                (0, 1, 2, 0x90, 0xC0, 0xC4, 0xC5, 0xC6, choose.randrange(256))
            )
        cut = bytes(entry[: choose.choice((len(entry), choose.randrange(len(entry))))])
        try:
            wanted = expected(cut)
        except EntryFormatError as error:
            with pytest.raises(EntryFormatError) as refused:
                decode_columns(1, 2, cut)
            assert str(refused.value) == str(error)
        else:
            assert as_lists(decode_columns(1, 2, cut)) == wanted


def test_a_slice_of_a_slice_has_its_messages_and_indexes() -> None:
    entry = entry_of(Columns([None] * 5, [b"%d" % each for each in range(5)], [()] * 4 + [(b"h", b"v")]))
    part = decode_columns(1, 2, entry).slice(1, 5).slice(1, 4)
    assert (part.count, part.first_index) == (3, 2)
    assert as_lists(part) == ([None] * 3, [b"2", b"3", b"4"], [(), (), (b"h", b"v")])
