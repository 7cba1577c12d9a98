"""Requests for a bookie's pages over HTTP."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from http import HTTPStatus

from bookie_server.monitoring.request import HEAD_BYTES_MAX, METHODS, Request, RequestHead
from tests.helpers.fuzz.cutting import Cutter, pieces
from tests.helpers.fuzz.target import Target, plain


def http_request(data: bytes) -> None:
    """However the bytes come, the same requests are accepted, and the same refused, if not for the same reason."""
    cutter = Cutter(data)
    cuts = cutter.take(8)
    head = cutter.rest()
    whole, cut = _first([head]), _first(pieces(head, cuts))
    assert whole == cut or (isinstance(whole, HTTPStatus) and isinstance(cut, HTTPStatus))
    if isinstance(whole, Request):
        assert whole.method in METHODS and whole.path.startswith("/") and whole.path.isascii()
        assert " " not in whole.path and "?" not in whole.path
        assert head.startswith(f"{whole.method} {whole.path}".encode())
        assert 0 <= head.find(b"\r\n\r\n") <= HEAD_BYTES_MAX - 4


def _first(parts: Iterable[bytes]) -> Request | HTTPStatus | None:
    head = RequestHead()
    return next((found for part in parts if (found := head.feed(part)) is not None), None)


def corpus() -> Iterator[bytes]:
    headers = b"Host: b\r\nAccept: */*;q=0.2\r\nContent-Length: 0\r\n\r\n"
    for line in (b"GET /metrics?a=b HTTP/1.1", b"HEAD / HTTP/1.0", b"POST /x HTTP/1.1", b"PRI * HTTP/2.0"):
        yield b"\x03\x00\x10\x01\x05\x00\x00\x00" + line + b"\r\n" + headers
    yield bytes(8) + b"GET / HTTP/1.1\r\nHost: b\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    yield bytes(8) + b"GET / HTTP/1.1\r\nHost:" + b" " * 1000 + b"b\r\n folded\r\n\r\n"
    yield bytes(8) + b"\x16\x03\x01\x02\x00\x01"


TARGETS = (Target(name="http-request", session=plain(http_request), corpus=corpus),)
