"""Input formats: any cut into chunks gives the same messages, and a misfit is named with its place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlog.cli.input_formats import InputFormat, Keyed, read_messages
from dlog.errors import MessageTooLargeError
from ledger.errors import ConfigurationError
from ledger.model import ENTRY_BYTES_MAX


def messages(
    form: InputFormat, *chunks: bytes, key_column: str | None = None
) -> list[tuple[bytes | None, bytes]]:
    return [tuple(m) for group in read_messages(chunks, form, key_column) for m in group]


def test_a_message_a_line() -> None:
    assert messages(InputFormat.LINES, b"one\ntwo\n\nfour") == [
        (None, b"one"),
        (None, b"two"),
        (None, b""),
        (None, b"four"),
    ]
    assert messages(InputFormat.LINES, b"") == []


def test_what_arrived_together_goes_out_together() -> None:
    """Two chunks, the first of which ends inside a line: two groups."""
    groups = list(read_messages([b"a\nb\nc", b"c\nd\n"], InputFormat.LINES, None))
    assert groups == [[Keyed(None, b"a"), Keyed(None, b"b")], [Keyed(None, b"cc"), Keyed(None, b"d")]]


@given(st.lists(st.binary(max_size=8).filter(lambda line: b"\n" not in line)), st.integers(1, 5))
def test_chunks_do_not_matter(lines: list[bytes], size: int) -> None:
    text = b"".join(line + b"\n" for line in lines)
    chunks = [text[at : at + size] for at in range(0, len(text), size)]
    assert [payload for _, payload in messages(InputFormat.LINES, *chunks)] == lines


def test_csv_rows_keep_their_text_and_take_their_key() -> None:
    text = b'day,carrier,note\n1,AA,"x, y"\r\n2,"U""A","two\nlines"\n\n'
    assert messages(InputFormat.CSV, text, key_column="carrier") == [
        (b"AA", b'1,AA,"x, y"'),
        (b'U"A', b'2,"U""A","two\nlines"'),
    ]


def test_json_lines_keep_their_text_and_take_their_key() -> None:
    text = b'{"id": 7, "a": 1}\n{"id": "x"}\n'
    assert messages(InputFormat.JSONL, text, key_column="id") == [
        (b"7", b'{"id": 7, "a": 1}'),
        (b"x", b'{"id": "x"}'),
    ]


@given(st.lists(st.binary(max_size=20)), st.integers(1, 7))
def test_length_prefixed_messages_are_exact(payloads: list[bytes], size: int) -> None:
    text = b"".join(len(payload).to_bytes(4, "big") + payload for payload in payloads)
    chunks = [text[at : at + size] for at in range(0, len(text), size)]
    assert [payload for _, payload in messages(InputFormat.RAW_LENGTH, *chunks)] == payloads


@pytest.mark.parametrize(
    ("form", "text", "key_column", "sentence"),
    [
        (InputFormat.LINES, b"", "a", "--key-column needs --format csv or jsonl, not lines"),
        (InputFormat.CSV, b"a,b\n1,2\n", "c", "the CSV header has no column 'c': use one of a, b"),
        (
            InputFormat.CSV,
            b"a,b\n1,2\n3\n",
            "b",
            "line 3 of the CSV input has 1 columns, but the key 'b' is column 2",
        ),
        (InputFormat.CSV, b'a,b\n1,"2\n3,4\n', None, "ends inside a quoted field, at line 3"),
        (InputFormat.JSONL, b'{"a": 1}\n{"a": \n', None, "line 2 of the input is not JSON"),
        (InputFormat.JSONL, b"[" * 100_000, None, "line 1 of the input is not JSON"),
        (InputFormat.JSONL, b"[1]\n", "a", "line 1 of the input is not a JSON object with a member 'a'"),
        (
            InputFormat.RAW_LENGTH,
            b"\0\0\0\5abc",
            None,
            "the input ends inside a message: its last 7 bytes are not a whole message",
        ),
    ],
)
def test_what_does_not_fit_is_named(
    form: InputFormat, text: bytes, key_column: str | None, sentence: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        messages(form, text, key_column=key_column)
    assert sentence in str(caught.value)


def test_a_length_field_does_not_decide_how_much_is_read() -> None:
    """A claim of 4 GiB is refused at once, and so is an endless line."""
    with pytest.raises(
        MessageTooLargeError, match=f"4294967295 bytes or more, the limit of a message is {ENTRY_BYTES_MAX}"
    ):
        messages(InputFormat.RAW_LENGTH, b"\xff\xff\xff\xff")

    def endless():  # type: ignore[no-untyped-def]  # a generator that would never end
        while True:
            yield b"x" * 1_000_000

    with pytest.raises(MessageTooLargeError, match="a line of the input"):
        list(read_messages(endless(), InputFormat.LINES, None))
