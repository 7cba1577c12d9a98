"""Input formats: any cut into chunks gives the same messages, and a misfit is named with its place."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlog.cli.input.csv_rows import Columns
from dlog.cli.input.formats import InputFormat, InputOptions, read_messages
from dlog.cli.input.message import NewMessage
from dlog.cli.output import as_json
from dlog.errors import MessageTooLargeError
from dlog.model import Message, MessageId
from ledger.errors import ConfigurationError
from ledger.model import ENTRY_BYTES_MAX


def all_of(form: InputFormat, *chunks: bytes, **options: Any) -> list[NewMessage]:
    return [m for group in read_messages(chunks, InputOptions(form=form, **options)) for m in group]


def messages(form: InputFormat, *chunks: bytes, **options: Any) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and payloads of messages without headers."""
    found = all_of(form, *chunks, **options)
    assert not any(message.headers for message in found)
    return [(message.key, message.payload) for message in found]


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
    groups = read_messages([b"a\nb\nc", b"c\nd\n"], InputOptions())
    assert [[message.payload for message in group] for group in groups] == [[b"a", b"b"], [b"cc", b"d"]]


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


CSV = b'day,carrier,note\n1,AA,"x, y"\n2,UA,\n'


def test_csv_columns_become_json() -> None:
    assert messages(InputFormat.CSV, CSV, columns=Columns.JSON, key_column="carrier") == [
        (b"AA", b'{"day": "1", "carrier": "AA", "note": "x, y"}'),
        (b"UA", b'{"day": "2", "carrier": "UA", "note": ""}'),
    ]


def test_csv_columns_become_headers() -> None:
    assert all_of(
        InputFormat.CSV, CSV, columns=Columns.HEADERS, key_column="carrier", payload_column="note"
    ) == [
        NewMessage(b"AA", b"x, y", ((b"day", b"1"),)),
        NewMessage(b"UA", b"", ((b"day", b"2"),)),
    ]
    [first, _] = all_of(InputFormat.CSV, CSV, columns=Columns.HEADERS)
    assert first == NewMessage(
        None, b'1,AA,"x, y"', ((b"day", b"1"), (b"carrier", b"AA"), (b"note", b"x, y"))
    )


def test_a_byte_order_mark_is_no_part_of_the_first_column() -> None:
    """Excel writes one; there may be quotes after it."""
    for header in (b"day,carrier", b'"day",carrier'):
        chunks = [b"\xef\xbb\xbf", header + b"\r\n1,AA\r\n"]
        [message] = all_of(InputFormat.CSV, *chunks, columns=Columns.JSON, key_column="day")
        assert message == NewMessage(b"1", b'{"day": "1", "carrier": "AA"}')


@pytest.mark.parametrize("before", [b"\n", b"\r\n\r\n", b"\xef\xbb\xbf\n"])
def test_empty_lines_before_the_header_of_csv_are_no_header(before: bytes) -> None:
    """They are no rows further down either."""
    assert all_of(InputFormat.CSV, before + b"day,carrier\n1,AA\n") == [NewMessage(None, b"1,AA")]
    [message] = all_of(InputFormat.CSV, before + b"day,carrier\n1,AA\n", key_column="day")
    assert message == NewMessage(b"1", b"1,AA")


def test_a_csv_field_may_be_as_large_as_a_message() -> None:
    """Python's own limit of a field is 128 KiB."""
    large = b"x" * (1 << 20)
    [message] = all_of(InputFormat.CSV, b"day,note\n1,", large, b"\n", key_column="note")
    assert message.key == large


@pytest.mark.parametrize("columns", Columns)
def test_csv_rows_with_quotes_inside_a_field_are_not_joined(columns: Columns) -> None:
    """The quotes of two such rows pair up, as if all between them were one field with newlines."""
    text = b'item,n\nnail,2\n5" pipe,3\nplain,4\n6" pipe,5\nlast,6\n'
    with pytest.raises(ConfigurationError, match="lines 3 to 5 of the CSV input"):
        all_of(InputFormat.CSV, text, columns=columns)


def test_a_csv_field_in_quotes_may_have_newlines() -> None:
    rows = [b'"5"" pipe\n\nlong",3', b'"a,\r\n""b""\n",4', b"plain,5"]
    text = b"item,n\n" + b"\r\n".join(rows)
    assert messages(InputFormat.CSV, text) == [(None, row) for row in rows]
    assert messages(InputFormat.CSV, text, payload_column="n") == [(None, b"3"), (None, b"4"), (None, b"5")]


def test_csv_bytes_that_are_no_text_stay_as_they_are() -> None:
    [found] = all_of(InputFormat.CSV, b"a,\xff\n\xfe,2\n", columns=Columns.HEADERS, key_column="a")
    assert found == NewMessage(b"\xfe", b"\xfe,2", ((b"\xff", b"2"),))


def test_a_key_ends_at_the_first_delimiter() -> None:
    text = b"a:1:2\n:3\nb:\n"
    assert messages(InputFormat.LINES, text, key_delimiter=b":") == [
        (b"a", b"1:2"),
        (b"", b"3"),
        (b"b", b""),
    ]


def test_key_headers_and_tombstones_for_every_message() -> None:
    options = {"key": b"k", "headers": ((b"a", b"1"), (b"a", b"2")), "tombstones": True}
    assert all_of(InputFormat.LINES, b"x\n\n", **options) == [
        NewMessage(b"k", b"x", ((b"a", b"1"), (b"a", b"2"))),
        NewMessage(b"k", None, ((b"a", b"1"), (b"a", b"2"))),
    ]


MESSAGES = [
    NewMessage(b"k", b"v"),
    NewMessage(None, b"", ((b"h", b"1"), (b"h", b""))),
    NewMessage(b"\xff", None, ((b"\xfe", b"\xfd"),)),
    NewMessage(b"", "h\u00e9\n".encode()),
]


def test_what_read_prints_is_read_as_the_same_messages() -> None:
    printed = b"".join(
        as_json(Message(MessageId(1, number), one.payload, one.key, headers=one.headers))
        for number, one in enumerate(MESSAGES)
    )
    assert all_of(InputFormat.MESSAGES, printed) == MESSAGES
    assert all_of(InputFormat.MESSAGES, b'{"payload": "v"}\n', headers=((b"h", b"1"),)) == [
        NewMessage(None, b"v", ((b"h", b"1"),))
    ]


@pytest.mark.parametrize("part", [b"\0", b"\xff", b'"'], ids=["escaped", "base64", "quotes"])
def test_a_message_at_the_limit_is_read_however_its_bytes_are_written(part: bytes) -> None:
    """As JSON it takes up to six times as many bytes, which arrive in chunks."""
    largest = NewMessage(None, part * (ENTRY_BYTES_MAX - 100_000), ((part * 20, b""),) * 1_000)
    printed = as_json(Message(MessageId(1, 0), largest.payload, largest.key, headers=largest.headers))
    chunks = (printed[at : at + 1_000_000] for at in range(0, len(printed), 1_000_000))
    assert all_of(InputFormat.MESSAGES, *chunks) == [largest]


def test_json_lines_keep_their_text_and_take_their_key() -> None:
    text = b'{"id": 7, "a": 1}\n{"id": "x"}\n'
    assert messages(InputFormat.JSONL, text, key_column="id") == [
        (b"7", b'{"id": 7, "a": 1}'),
        (b"x", b'{"id": "x"}'),
    ]


def test_a_member_that_is_null_is_no_key() -> None:
    text = b'{"id": null}\n{"id": "null"}\n{"id": ""}\n'
    keys = [key for key, _ in messages(InputFormat.JSONL, text, key_column="id")]
    assert keys == [None, b"null", b""]


@pytest.mark.parametrize("columns", [Columns.ROW, Columns.HEADERS])
@pytest.mark.parametrize("use", ["key_column", "payload_column"])
def test_a_column_that_the_header_has_twice_is_not_chosen(columns: Columns, use: str) -> None:
    """It would be a guess which of the two is meant; others may be there twice."""
    text = b"a,b,a\n1,2,3\n"
    assert len(all_of(InputFormat.CSV, text, columns=columns, **{use: "b"})) == 1
    with pytest.raises(ConfigurationError, match="the CSV header has column 'a' twice"):
        all_of(InputFormat.CSV, text, columns=columns, **{use: "a"})


@pytest.mark.parametrize(
    "value",
    [
        "1.10",
        "1e5",
        "12345678901234567890.5",
        "-0",
        "9" * 5_000,
        '[1.10, {"a": 1.0, "\\u00e9": null}]',
        "true",
    ],
)
def test_a_key_that_is_no_text_is_as_it_is_written(value: str) -> None:
    """Numbers that differ only where a float has no digits are different keys."""
    text = f'{{"id": {value}}}'.encode()
    assert messages(InputFormat.JSONL, text, key_column="id") == [(value.encode(), text)]


@pytest.mark.parametrize("depth", [900, 5_000, 100_000])
def test_a_key_that_is_nested_deeply_is_taken_or_refused(depth: int) -> None:
    """How deep Python may go depends on its version."""
    key = b"[" * depth + b"]" * depth
    try:
        [found] = all_of(InputFormat.JSONL, b'{"a": ' + key + b"}", key_column="a")
    except ConfigurationError as error:
        assert str(error).startswith("line 1 of the input ")
    else:
        assert found.key == key


@pytest.mark.parametrize("line", [b"1\0", b'"\0a\0"\0', b'"\xed\xa0\x80"', b"\xff\xfe1\0", b"\xef\xbb\xbf1"])
@pytest.mark.parametrize("form", [InputFormat.JSONL, InputFormat.MESSAGES])
def test_a_line_that_is_not_utf8_is_not_json(form: InputFormat, line: bytes) -> None:
    """Its encoding is not guessed: the payload is the line, and other programs take JSON for UTF-8."""
    first = b'{"payload": "x"}\n'
    with pytest.raises(ConfigurationError, match="line 2 of the input is not JSON"):
        all_of(form, first + line + b"\n")


def test_a_byte_order_mark_is_no_part_of_the_first_json_line() -> None:
    chunks = [b"\xef\xbb\xbf", b'{"id": 7}\n"\xef\xbb\xbf"\n']
    assert messages(InputFormat.JSONL, *chunks) == [(None, b'{"id": 7}'), (None, b'"\xef\xbb\xbf"')]
    assert messages(InputFormat.JSONL, *chunks[:1], b"\n1\n") == [(None, b"1")]
    assert messages(InputFormat.MESSAGES, *chunks[:1], b'{"payload": "v"}\n') == [(None, b"v")]


@given(st.lists(st.binary(max_size=20)), st.integers(1, 7))
def test_length_prefixed_messages_are_exact(payloads: list[bytes], size: int) -> None:
    text = b"".join(len(payload).to_bytes(4, "big") + payload for payload in payloads)
    chunks = [text[at : at + size] for at in range(0, len(text), size)]
    assert [payload for _, payload in messages(InputFormat.RAW_LENGTH, *chunks)] == payloads


@pytest.mark.parametrize(
    ("form", "text", "key_column", "sentence"),
    [
        (InputFormat.JSONL, b'{"a": "\\ud800"}\n', "a", "line 1 of the input has text that is not Unicode"),
        (InputFormat.CSV, b"a,b\n1,2\n", "c", "the CSV header has no column 'c': use one of a, b"),
        (
            InputFormat.CSV,
            b"a,b\n1,2\n3\n",
            "b",
            "line 3 of the CSV input has 1 column, but the key 'b' is column 2",
        ),
        (InputFormat.CSV, b'a,b\n1,"2\n3,4\n', None, "ends inside a quoted field, at line 3"),
        (
            InputFormat.JSONL,
            b'{"a": 1}\n{"a": \n',
            None,
            "line 2 of the input is not JSON: Expecting value at character 7",
        ),
        (InputFormat.JSONL, b'{"a": NaN}', None, "line 1 of the input is not JSON: NaN is no number there"),
        (
            InputFormat.JSONL,
            b"-Infinity",
            None,
            "line 1 of the input is not JSON: -Infinity is no number there",
        ),
        (InputFormat.JSONL, b"[" * 100_000, None, "line 1 of the input is not JSON"),
        (InputFormat.JSONL, b"[1]\n", "a", "line 1 of the input is not a JSON object with a member 'a'"),
        (
            InputFormat.RAW_LENGTH,
            b"\0\0\0\5abc",
            None,
            "the input ends inside a message: its end, 7 bytes, is not a whole message",
        ),
    ],
)
def test_what_does_not_fit_is_named(
    form: InputFormat, text: bytes, key_column: str | None, sentence: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        messages(form, text, key_column=key_column)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("form", "text", "options", "sentence"),
    [
        pytest.param(
            InputFormat.LINES,
            b"a:1\nb\n",
            {"key_delimiter": b":"},
            "line 2 of the input has no key: the delimiter ':' is not in it",
            id="no delimiter",
        ),
        pytest.param(
            InputFormat.CSV,
            b"a,b\n1,2\n3\n",
            {"columns": Columns.HEADERS},
            "line 3 of the CSV input has 1 column, the header has 2",
            id="row too short",
        ),
        pytest.param(
            InputFormat.CSV,
            b"a,a\n1,2\n",
            {"columns": Columns.JSON},
            "the CSV header has column 'a' twice, so a row is no JSON object",
            id="column twice",
        ),
        pytest.param(
            InputFormat.CSV,
            b"," * 1_000 + b"\n",
            {"columns": Columns.HEADERS},
            "the CSV header has 1001 columns that become headers, a message has at most 1000",
            id="too many headers",
        ),
        pytest.param(
            InputFormat.CSV,
            b"a\n\xff\n",
            {"columns": Columns.JSON},
            "line 2 of the CSV input is not UTF-8, which JSON needs",
            id="not UTF-8",
        ),
        pytest.param(
            InputFormat.CSV,
            b"a,b\n1,x\ry\n",
            {"columns": Columns.JSON},
            "line 2 of the input is not CSV: it has a carriage return outside quotes: put the field in quotes",
            id="carriage return",
        ),
        pytest.param(
            InputFormat.CSV,
            b"a,b\n1\n",
            {"payload_column": "b"},
            "line 2 of the CSV input has 1 column, but the payload 'b' is column 2",
            id="no payload column",
        ),
        *(
            pytest.param(InputFormat.MESSAGES, line, {}, f"line 1 of the input {sentence}", id=sentence)
            for line, sentence in (
                (b"[1]", "is not a JSON object"),
                (b"{}", 'has no "payload": a tombstone has null'),
                (b'{"payload": 1.5}', 'has a "payload" that is neither text nor null'),
                (b'{"payload": 1}', 'has a "payload" that is neither text nor null'),
                (b'{"payload": "", "payload_base64": ""}', 'has both "payload" and "payload_base64"'),
                (b'{"payload_base64": "@"}', 'has a "payload_base64" that is not base64'),
                (b'{"payload_base64": 7}', 'has a "payload_base64" that is not base64'),
                (b'{"payload": "", "heades": []}', "has an unknown member 'heades'"),
                (b'{"payload": "", "headers": {}}', 'has "headers" that are not an array'),
                (b'{"payload": "", "headers": [1]}', "has a header that is not a JSON object"),
                (b'{"payload": "", "headers": [{"key": ""}]}', 'has a header without "key" or "value"'),
                (
                    b'{"payload": "", "headers": [{"key": "", "value": "", "x": 1}]}',
                    "has an unknown member 'x'",
                ),
                (b'{"payload": "\\ud800"}', "has text that is not Unicode"),
            )
        ),
    ],
)
def test_what_the_options_need_is_missed_with_its_line(
    form: InputFormat, text: bytes, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        all_of(form, text, **options)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"key_column": "a"}, "--key-column needs --format csv or jsonl, not lines"),
        ({"form": InputFormat.CSV, "key_delimiter": b":"}, "--key-delimiter needs --format lines, not csv"),
        (
            {"form": InputFormat.JSONL, "payload_column": "a"},
            "--payload-column needs --format csv, not jsonl",
        ),
        ({"columns": Columns.JSON}, "--columns needs --format csv, not lines"),
        ({"key": b"k", "key_delimiter": b":"}, "--key is the key of every message"),
        ({"form": InputFormat.CSV, "key": b"k", "key_column": "a"}, "--key is the key of every message"),
        ({"form": InputFormat.MESSAGES, "key": b"k"}, "--key does not go with --format messages"),
        (
            {"form": InputFormat.CSV, "columns": Columns.JSON, "payload_column": "a"},
            "--payload-column does not go with --columns json",
        ),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        InputOptions(**options)
    assert sentence in str(caught.value)


def test_a_length_field_does_not_decide_how_much_is_read() -> None:
    """A claim of 4 GiB is refused at once, and so is an endless line."""
    with pytest.raises(
        MessageTooLargeError,
        match="4294967295 bytes or more; the limit of a message is an entry of 1048576 bytes",
    ):
        messages(InputFormat.RAW_LENGTH, b"\xff\xff\xff\xff")

    def endless():  # type: ignore[no-untyped-def]  # a generator that would never end
        while True:
            yield b"x" * 1_000_000

    for form in (InputFormat.LINES, InputFormat.JSONL, InputFormat.MESSAGES):
        with pytest.raises(MessageTooLargeError, match="a line of the input"):
            list(read_messages(endless(), InputOptions(form=form)))
