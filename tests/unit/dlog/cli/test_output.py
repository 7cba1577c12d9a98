"""What people and programs see of a message."""

from __future__ import annotations

import json

import pytest

from dlog.cli.options import Output
from dlog.cli.output import as_json, as_raw, as_text, formatter, instant, json_instant
from dlog.cli.positions import time_of
from dlog.model import Message, MessageId
from ledger.errors import ConfigurationError


def message(payload: bytes | None, key: bytes | None = None, **more: object) -> Message:
    return Message(MessageId(17, 420, 3), payload, key, **more)  # type: ignore[arg-type]  # test helper


def test_text_is_one_line_whatever_the_bytes() -> None:
    assert as_text(message("héllo\n".encode(), b"k")) == "17:420:3\tk\théllo\\n\n".encode()
    assert as_text(message(b"\xff\x1b[2J", b"")) == b"17:420:3\t\t\\xff\\x1b[2J\n"
    assert as_text(message("\x9b2J".encode())) == b"17:420:3\t-\t\\x9b2J\n"
    assert as_text(message(None)) == b"17:420:3\t-\t-\n"


def test_text_ends_with_the_headers() -> None:
    assert (
        as_text(message(b"v", b"k", headers=((b"h", b"1"), (b"h", b"\n")))) == b"17:420:3\tk\tv\th=1\th=\\n\n"
    )


def test_raw_has_the_key_if_asked() -> None:
    with_key = formatter(Output.RAW, r"\t")
    assert with_key(message(b"v", b"k")) == b"k\tv\n"
    assert with_key(message(None)) == b"\t\n"
    for output, delimiter in ((Output.TEXT, ":"), (Output.JSON, ":"), (Output.RAW, "")):
        with pytest.raises(ConfigurationError, match="--key-delimiter"):
            formatter(output, delimiter)


def test_json_distinguishes_bytes_from_text() -> None:
    assert json.loads(as_json(message(b"v", None, append_time_us=1_357_000_000_123_456))) == {
        "id": "17:420:3",
        "time": "2013-01-01T00:26:40.123456+00:00",
        "key": None,
        "payload": "v",
    }
    found = json.loads(as_json(message(b"\xff", b"k", headers=((b"h", b"\xfe"),))))
    assert found["payload_base64"] == "/w=="
    assert found["headers"] == [{"key": "h", "value_base64": "/g=="}]


def test_json_has_no_control_characters_and_loses_none() -> None:
    """A terminal takes U+009B for the begin of a sequence, as ESC [."""
    wild = "".join(map(chr, range(0xA1))) + "é\u2028"
    line = as_json(message(wild.encode(), wild.encode(), headers=((wild.encode(), wild.encode()),)))
    found = json.loads(line)
    assert found["payload"] == found["key"] == found["headers"][0]["key"] == wild
    assert [code for code in map(ord, line.decode()[:-1]) if code < 32 or 127 <= code < 160] == []


def test_raw_is_the_payload() -> None:
    assert as_raw(message(b"a\0b")) == b"a\0b\n"
    assert as_raw(message(None)) == b"\n"


@pytest.mark.parametrize("time_us", [1_357_000_000_000_000, 1_790_000_000_000_001, 253_402_300_799_999_999])
def test_json_has_the_exact_time(time_us: int) -> None:
    """As a position it finds the same message."""
    printed = json_instant(time_us)
    assert printed is not None and time_of(printed, 0) == time_us
    assert instant(1_357_000_000_123_456) == "2013-01-01T00:26:40.123+00:00"


def test_an_unknown_time_is_a_dash() -> None:
    assert instant(0) == "-"
    assert json.loads(as_json(message(b"v")))["time"] is None
