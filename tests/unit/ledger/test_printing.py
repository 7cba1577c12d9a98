"""Tables, facts and JSON as both command lines print them."""

from __future__ import annotations

import json

import pytest

from ledger.printing import (
    narrow_table_lines,
    print_facts,
    print_json,
    print_stream,
    table_lines,
    with_times,
    with_words,
)

COLUMNS = ("ledger", "bytes", "created")
ROWS = [["17", 1_234_567, "2026-01-01T00:00:00Z"], ["9223372036854775807", None, "-"]]


def test_a_table_is_as_wide_as_it_needs_to_be() -> None:
    assert list(table_lines(COLUMNS, ROWS, None)) == [
        "             ledger      bytes  created",
        "                 17  1,234,567  2026-01-01T00:00:00Z",
        "9223372036854775807          -  -",
    ]
    assert list(table_lines(COLUMNS, [], 80)) == ["ledger  bytes  created"]


WILD = "a\x1b]0;title\x07\x9b2J\x7f\r\n\tb é"
TAMED = r"a\x1b]0;title\x07\x9b2J\x7f\r\n\tb é"


def test_text_has_no_control_characters_of_names(capsys: pytest.CaptureFixture[str]) -> None:
    """Programs choose the names of owners, and would move the cursor of the operator's terminal."""
    assert list(table_lines(("owner",), [[WILD]], None)) == ["owner", TAMED]
    assert list(table_lines(("owner",), [[[WILD, 1]]], 10)) == [f"owner  {TAMED}, 1"]
    print_facts({"owner": WILD})
    print_stream([{"owner": WILD}], as_json=False)
    assert capsys.readouterr().out == f"owner  {TAMED}\nowner={TAMED}\n"


def test_json_has_no_control_characters_and_loses_none(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"owner": WILD})
    print_stream([{"owner": WILD}], as_json=True)
    document, line = (out := capsys.readouterr().out).rstrip("\n").rsplit("\n", 1)
    assert json.loads(document) == json.loads(line) == {"owner": WILD}
    assert "é" in out and "\n" not in line
    assert [char for char in out if not char.isprintable() and char != "\n"] == []


def test_a_narrow_table_lacks_the_columns_on_the_right_that_do_not_fit() -> None:
    assert narrow_table_lines(COLUMNS, ROWS, 52) == list(table_lines(COLUMNS, ROWS, None))
    two = list(table_lines(COLUMNS[:2], [row[:2] for row in ROWS], None))
    assert narrow_table_lines(COLUMNS, ROWS, 51) == narrow_table_lines(COLUMNS, ROWS, 30) == two
    assert narrow_table_lines(COLUMNS, ROWS, 5) == ["             ledger", "                 17", ROWS[1][0]]


@pytest.mark.parametrize("width", range(1, 70))
def test_no_value_of_a_table_is_cut(width: int) -> None:
    """Where it does not fit, each row becomes a block."""
    lines = list(table_lines(COLUMNS, ROWS, width))
    assert [
        word
        for word in ("9223372036854775807", "1,234,567", "2026-01-01T00:00:00Z")
        if word not in " ".join(lines)
    ] == []
    if width < 52:
        assert lines[:5] == [
            "ledger   17",
            "bytes    1,234,567",
            "created  2026-01-01T00:00:00Z",
            "",
            "ledger   9223372036854775807",
        ]
    else:
        assert max(map(len, lines)) <= width


def test_facts_are_aligned_and_an_id_is_not_a_quantity(capsys: pytest.CaptureFixture[str]) -> None:
    print_facts({"free_bytes": 1_234_567, "port": "3181", "cookie": None, "in_limbo": False, "ids": [1, 20]})
    assert capsys.readouterr().out.splitlines() == [
        "free bytes  1,234,567",
        "port        3181",
        "cookie      -",
        "in limbo    no",
        "ids         1, 20",
    ]


def test_json_keeps_numbers_and_null(capsys: pytest.CaptureFixture[str]) -> None:
    facts = {"free_bytes": 1_234_567, "cookie": None, "in_limbo": False, "name": "größe"}
    print_json(facts)
    printed = capsys.readouterr().out
    assert json.loads(printed) == facts
    assert "größe" in printed


def test_a_stream_is_one_line_per_row(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"entry": 1_000, "length": None}, {"entry": 1_001, "length": 5}]
    print_stream(rows, as_json=False)
    assert capsys.readouterr().out == "entry=1000  length=-\nentry=1001  length=5\n"
    print_stream(rows, as_json=True)
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == rows


def test_times_and_lists_are_for_people_in_text() -> None:
    row = {"missing": ["b:1", "b:2"], "marked_ms": 1_795_811_054_379, "checked_ms": None, "odd_ms": 2**62}
    assert with_times(with_words(row)) == {
        "missing": "b:1 b:2",
        "marked": "2026-11-27T20:24:14Z",
        "checked": None,
        "odd": str(2**62),
    }


def test_numbers_with_decimals_are_on_the_right() -> None:
    assert list(table_lines(("pause ms",), [["17.7"], ["1,017.0"], [None]], None)) == [
        "pause ms",
        "    17.7",
        " 1,017.0",
        "       -",
    ]
