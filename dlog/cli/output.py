"""Messages as text, JSON or raw bytes; points in time as text. Pure. Tables: ledger/printing.py.

Text is for people: id, key and payload, separated by tabs, with unprintable characters escaped; then the headers, if
there are any. JSON is one object per line, as `dlog append --format messages` reads it; bytes that are not UTF-8 are
under a name that ends in `_base64`. Raw is the payload and a newline, with the key and a delimiter before it if asked.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from dlog.cli.options import Output, delimiter_bytes
from ledger.errors import ConfigurationError
from ledger.printing import json_text, one_line

if TYPE_CHECKING:
    from dlog.core.tailing import Gap
    from dlog.model import Message

_EPOCH = datetime.fromtimestamp(0, UTC)


def printable(value: bytes | None) -> str:
    """Bytes as one line of text; None as `-`."""
    if value is None:
        return "-"
    return one_line(value.decode("utf-8", "backslashreplace"))


def instant(time_us: int, timespec: str = "milliseconds") -> str:
    """Microseconds since 1970 as ISO 8601 in UTC; 0 is unknown."""
    return (_EPOCH + timedelta(microseconds=time_us)).isoformat(timespec=timespec) if time_us else "-"


def to_the_second(time_us: int) -> str:
    """The same in 20 characters, for tables."""
    return (
        datetime.fromtimestamp(time_us // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if time_us else "-"
    )


def json_instant(time_us: int) -> str | None:
    """The same for programs, without loss; the unknown is null."""
    return instant(time_us, "microseconds") if time_us else None


def as_text(message: Message) -> bytes:
    fields = [str(message.id), printable(message.key), printable(message.payload)]
    fields += [f"{printable(name)}={printable(value)}" for name, value in message.headers]
    return ("\t".join(fields) + "\n").encode("utf-8", "backslashreplace")


def as_json(message: Message) -> bytes:
    found: dict[str, Any] = {"id": str(message.id), "time": json_instant(message.append_time_us)}
    found |= _json_bytes("key", message.key)
    found |= _json_bytes("payload", message.payload)
    if message.headers:
        found["headers"] = [
            {**_json_bytes("key", key), **_json_bytes("value", value)} for key, value in message.headers
        ]
    return json_text(found).encode() + b"\n"


def as_raw(message: Message) -> bytes:
    return (message.payload or b"") + b"\n"


def as_raw_with_key(message: Message, delimiter: bytes) -> bytes:
    return (message.key or b"") + delimiter + as_raw(message)


def gap_sentence(gap: Gap) -> str:
    """What a reader has passed over, for stderr."""
    return f"{gap.reason}: messages from {gap.first} to before {gap.resume_at} are missing"


def _json_bytes(name: str, value: bytes | None) -> dict[str, str | None]:
    if value is None:
        return {name: None}
    try:
        return {name: value.decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_base64": b64encode(value).decode()}


def formatter(output: Output, key_delimiter: str | None = None) -> Callable[[Message], bytes]:
    """The function that turns a message into the bytes to print.

    Raises:
        ConfigurationError: a delimiter for an output that needs none.
    """
    if key_delimiter is not None:
        if output is not Output.RAW:
            raise ConfigurationError(f"--key-delimiter needs -o raw: {output.value} has the key already")
        return partial(as_raw_with_key, delimiter=delimiter_bytes(key_delimiter))
    return {Output.TEXT: as_text, Output.JSON: as_json, Output.RAW: as_raw}[output]
