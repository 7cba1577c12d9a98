"""The head of one HTTP/1.1 request, as its bytes arrive. Pure.

Strict: a request that a client of a page does not need is refused, and so is one that two readers could understand in
two ways. A head is bounded in bytes and headers, so a peer can make a connection hold no more than that.

Source: RFC 9112, sections 2 to 5.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus

HEAD_BYTES_MAX = 8192
LINE_BYTES_MAX = 2048
"""Of the request line."""
HEADERS_MAX = 64

METHODS = ("GET", "HEAD")

_END = b"\r\n\r\n"
_REQUEST_LINE = re.compile(rb"([A-Z]{1,16}) (/[!-~]*) HTTP/1\.([01])")
_BEGUN_LINE = re.compile(rb"(?:[A-Z][ -~]*\r?)?")
# Each is one class of characters, so that no input takes longer than its length.
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(rb"[ \t!-~\x80-\xff]*")


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    """GET or HEAD."""
    path: str
    """Without the query."""


class RequestHead:
    """Collects the head of a connection's only request."""

    def __init__(self) -> None:
        self._received = bytearray()

    @property
    def is_empty(self) -> bool:
        """Whether nothing has arrived."""
        return not self._received

    def feed(self, data: bytes) -> Request | HTTPStatus | None:
        """The request once its head is complete, or the status that refuses it; None: more is needed.

        To be called no more once it has returned something. What follows the head is not looked at.
        """
        searched = max(0, len(self._received) - len(_END) + 1)
        self._received += data[: HEAD_BYTES_MAX + 1]
        end = self._received.find(_END, searched)
        if end + len(_END) > HEAD_BYTES_MAX or (end < 0 and len(self._received) > HEAD_BYTES_MAX):
            return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        if end >= 0:
            return _parsed(bytes(self._received[:end]))
        return _hopeless(self._received)


def _hopeless(part: bytearray) -> HTTPStatus | None:
    """The status for a head that no end can make right: other protocols never send one."""
    line, ending, _ = part.partition(b"\r\n")
    if len(line) > LINE_BYTES_MAX:
        return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
    if ending:
        return None if _REQUEST_LINE.fullmatch(line) else HTTPStatus.BAD_REQUEST
    return None if _BEGUN_LINE.fullmatch(line) else HTTPStatus.BAD_REQUEST


def _parsed(head: bytes) -> Request | HTTPStatus:
    line, *lines = head.split(b"\r\n")
    if len(line) > LINE_BYTES_MAX or len(lines) > HEADERS_MAX:
        return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
    found = _REQUEST_LINE.fullmatch(line)
    headers = _headers(lines)
    if found is None or headers is None:
        return HTTPStatus.BAD_REQUEST
    hosts = sum(name == b"host" for name, _ in headers)
    if hosts > 1 or (found[3] == b"1" and not hosts):
        return HTTPStatus.BAD_REQUEST
    method = found[1].decode("ascii")
    if method not in METHODS:
        return HTTPStatus.METHOD_NOT_ALLOWED
    if any(map(_announces_body, headers)):
        return HTTPStatus.BAD_REQUEST
    return Request(method, found[2].partition(b"?")[0].decode("ascii"))


def _headers(lines: Sequence[bytes]) -> list[tuple[bytes, bytes]] | None:
    """Names, in lower case, and values; None if a line is no header, as one that continues another."""
    found: list[tuple[bytes, bytes]] = []
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            return None
        found.append((name.lower(), value.strip(b" \t")))
    return found


def _announces_body(header: tuple[bytes, bytes]) -> bool:
    name, value = header
    return name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
