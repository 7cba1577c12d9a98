"""Input as lines of JSON: a value is the payload, or describes a message as `dlog read -o json` prints it. Pure."""

from __future__ import annotations

import codecs
import json
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator

from dlog.cli.input.message import Group, Headers, NewMessage
from ledger.errors import ConfigurationError
from ledger.model import ENTRY_BYTES_MAX

DESCRIPTION_BYTES_MAX = 6 * ENTRY_BYTES_MAX + 64 * 1024
"""Longest line that describes a message: JSON has `\\u0000` for one byte, and names the members of each header."""

_PRINTED_ONLY = {"id", "time"}
"""Members that belong to the place in the log which the message was read from."""


def json_messages(groups: Iterable[list[bytes]], key_member: str | None) -> Iterator[Group]:
    """Each line is a payload, unchanged. ConfigurationError: a line is not JSON, or has no such member."""

    def message(line: bytes, value: object) -> NewMessage:
        return NewMessage(None if key_member is None else _member(value, key_member), line)

    return _messages(groups, message)


def described_messages(groups: Iterable[list[bytes]]) -> Iterator[Group]:
    """Each line describes a message. ConfigurationError: a line does not."""
    return _messages(groups, lambda _, value: _described(value))


def _messages(
    groups: Iterable[list[bytes]], message: Callable[[bytes, object], NewMessage]
) -> Iterator[Group]:
    """Empty lines are left out, and a byte order mark before the first one, which is no part of JSON."""
    number = 0
    for lines in groups:
        group = []
        for line in lines:
            number += 1
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            if line.strip():
                try:
                    group.append(message(line, _parsed(line)))
                except ConfigurationError as error:
                    raise ConfigurationError(f"line {number} of the input {error}") from error
        if group:
            yield group


class _Number:
    """A number as it is written: Python would round it, or refuse one of thousands of digits."""

    def __init__(self, text: str) -> None:
        self.text = text


def _no_number(name: str) -> object:
    raise ValueError(f"{name} is no number there")


_DECODER = json.JSONDecoder(parse_float=_Number, parse_int=_Number, parse_constant=_no_number)


def _parsed(line: bytes) -> object:
    try:
        value: object = _DECODER.decode(line.decode())
    except json.JSONDecodeError as error:  # its own text names line 1, which the input has, too
        raise ConfigurationError(f"is not JSON: {error.msg} at character {error.pos + 1}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"is not JSON: {error}") from error
    return value


def _member(value: object, name: str) -> bytes | None:
    """The key; None if it is null, as of a message that is described."""
    if not isinstance(value, dict) or name not in value:
        raise ConfigurationError(f"is not a JSON object with a member {name!r}")
    key = value[name]
    if key is None:
        return None
    try:
        return _encoded(key if isinstance(key, str) else _written(key))
    except RecursionError as error:
        raise ConfigurationError(f"has a member {name!r} that is nested too deeply for a key") from error


def _written(value: object) -> str:
    match value:
        case _Number():
            return value.text
        case list():
            return f"[{', '.join(map(_written, value))}]"
        case dict():
            return f"{{{', '.join(f'{json.dumps(name)}: {_written(one)}' for name, one in value.items())}}}"
        case _:
            return json.dumps(value)


def _described(value: object) -> NewMessage:
    if not isinstance(value, dict):
        raise ConfigurationError("is not a JSON object")
    fields = {name: member for name, member in value.items() if name not in _PRINTED_ONLY}
    headers = fields.pop("headers", [])
    key, payload = _bytes_of(fields, "key"), _bytes_of(fields, "payload")
    if "payload" not in value and "payload_base64" not in value:
        raise ConfigurationError('has no "payload": a tombstone has null')
    _check_empty(fields)
    return NewMessage(key, payload, _headers_of(headers))


def _headers_of(value: object) -> Headers:
    if not isinstance(value, list):
        raise ConfigurationError('has "headers" that are not an array')
    return tuple(_header_of(one) for one in value)


def _header_of(value: object) -> tuple[bytes, bytes]:
    if not isinstance(value, dict):
        raise ConfigurationError("has a header that is not a JSON object")
    fields = dict(value)
    name, content = _bytes_of(fields, "key"), _bytes_of(fields, "value")
    _check_empty(fields)
    if name is None or content is None:
        raise ConfigurationError('has a header without "key" or "value"')
    return name, content


def _bytes_of(fields: dict[str, object], name: str) -> bytes | None:
    """Take `name` or `name_base64` out of the fields; None if it is null or missing."""
    if name in fields and f"{name}_base64" in fields:
        raise ConfigurationError(f'has both "{name}" and "{name}_base64"')
    if f"{name}_base64" in fields:
        text = fields.pop(f"{name}_base64")
        try:
            return b64decode(text, validate=True)  # type: ignore[arg-type]  # another type is a TypeError
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f'has a "{name}_base64" that is not base64: {error}') from error
    text = fields.pop(name, None)
    if text is not None and not isinstance(text, str):
        raise ConfigurationError(f'has a "{name}" that is neither text nor null')
    return None if text is None else _encoded(text)


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ConfigurationError(f"has text that is not Unicode: {error}") from error


def _check_empty(fields: dict[str, object]) -> None:
    if fields:
        raise ConfigurationError(f"has an unknown member {next(iter(fields))!r}")
