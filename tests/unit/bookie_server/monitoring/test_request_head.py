"""The head of a request: what is one, what is refused, and with which status."""

from __future__ import annotations

from http import HTTPStatus

import pytest

from bookie_server.monitoring.request import (
    HEAD_BYTES_MAX,
    HEADERS_MAX,
    LINE_BYTES_MAX,
    Request,
    RequestHead,
)

PROMETHEUS = (
    b"GET /metrics?pretty=1 HTTP/1.1\r\nHost: 127.0.0.1:9090\r\nUser-Agent: Prometheus/3.0.0\r\n"
    b"Accept: text/plain;version=0.0.4;q=0.5,*/*;q=0.2\r\nAccept-Encoding: gzip\r\n"
    b"X-Prometheus-Scrape-Timeout-Seconds:\t10 \r\nX-Empty:\r\nX-Name: caf\xc3\xa9\r\n\r\n"
)
TOO_LARGE = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE


def fed(*parts: bytes) -> Request | HTTPStatus | None:
    head, found = RequestHead(), None
    for part in parts:
        found = head.feed(part)
        if found is not None:
            break
    return found


def get(*headers: bytes, line: bytes = b"GET / HTTP/1.1", host: bytes = b"Host: b\r\n") -> bytes:
    return line + b"\r\n" + host + b"".join(each + b"\r\n" for each in headers) + b"\r\n"


def test_a_request_is_its_method_and_its_path_without_the_query() -> None:
    assert fed(PROMETHEUS) == Request("GET", "/metrics")
    assert fed(get(line=b"HEAD /health HTTP/1.0", host=b"")) == Request("HEAD", "/health")


def test_a_request_may_come_byte_by_byte() -> None:
    head = RequestHead()
    assert head.is_empty
    for each in range(len(PROMETHEUS) - 1):
        assert head.feed(PROMETHEUS[each : each + 1]) is None
        assert not head.is_empty
    assert head.feed(PROMETHEUS[-1:]) == Request("GET", "/metrics")


def test_nothing_is_no_bad_request() -> None:
    head = RequestHead()
    assert head.feed(b"") is None and head.is_empty


def test_what_follows_the_head_is_not_looked_at() -> None:
    assert fed(get() + b"\x00" * 1_000_000) == Request("GET", "/")


@pytest.mark.parametrize(
    "data",
    [
        get(line=b"GET  / HTTP/1.1"),
        get(line=b"GET / HTTP/2.0"),
        get(line=b"GET / HTTP/1.1 "),
        get(line=b"GET /"),
        get(line=b"get / HTTP/1.1"),
        get(line=b"GET http://b/ HTTP/1.1"),
        get(line=b"GET /\xff HTTP/1.1"),
        get(line=b"PRI * HTTP/2.0"),
        b"\r\n" + get(),
        get(host=b""),
        get(b"Host: other"),
        get(b"folded: a", b" b"),
        get(b"no colon"),
        get(b"space : a"),
        get(b": no name"),
        get(b"null: a\x00b"),
        get(b"bare: a\rb"),
        get(b"bare: a\nb: c"),
        get(b"Content-Length: 5"),
        get(b"Content-Length: 0", b"content-length: 7"),
        get(b"Transfer-Encoding: chunked"),
        get(b"spaces:" + b" " * 7000 + b"\x00"),
    ],
)
def test_what_is_no_request_is_a_bad_one(data: bytes) -> None:
    assert fed(data) is HTTPStatus.BAD_REQUEST
    assert fed(*(data[each : each + 1] for each in range(len(data)))) is HTTPStatus.BAD_REQUEST


@pytest.mark.parametrize(
    "data", [b"\x16\x03\x01\x02", b"\x00\x00\x00\x18", b"GET /\n", b"/\r\n", b"GET / HTTP/9\r\n"]
)
def test_another_protocol_is_refused_before_a_head_could_be_complete(data: bytes) -> None:
    """TLS, BookKeeper's frames, and lines that end in another way."""
    assert fed(data) is HTTPStatus.BAD_REQUEST


@pytest.mark.parametrize("method", [b"POST", b"PUT", b"DELETE", b"OPTIONS", b"CONNECT"])
def test_other_methods_are_not_allowed(method: bytes) -> None:
    assert fed(get(b"Content-Length: 5", line=method + b" /health HTTP/1.1")) is HTTPStatus.METHOD_NOT_ALLOWED


def test_an_empty_body_is_no_body() -> None:
    assert fed(get(b"Content-Length: 0")) == Request("GET", "/")


def test_the_request_line_is_bounded() -> None:
    longest = b"GET /" + b"a" * (LINE_BYTES_MAX - len("GET / HTTP/1.1")) + b" HTTP/1.1"
    assert isinstance(fed(get(line=longest)), Request)
    assert fed(get(line=longest.replace(b"/a", b"/aa"))) is TOO_LARGE
    assert fed(b"GET /" + b"a" * LINE_BYTES_MAX) is TOO_LARGE, "before its end has come"


def test_the_number_of_headers_is_bounded() -> None:
    assert isinstance(fed(get(*[b"a: b"] * (HEADERS_MAX - 1))), Request)
    assert fed(get(*[b"a: b"] * HEADERS_MAX)) is TOO_LARGE


def test_the_head_is_bounded() -> None:
    room = HEAD_BYTES_MAX - len(get(b"a: "))
    longest = get(b"a: " + b"b" * room)
    assert len(longest) == HEAD_BYTES_MAX and isinstance(fed(longest), Request)
    assert fed(get(b"a: " + b"b" * (room + 1))) is TOO_LARGE
    assert fed(b"GET / HTTP/1.1\r\na: " + b"b" * HEAD_BYTES_MAX) is TOO_LARGE, "before its end has come"
    assert fed(b"GET / HTTP/1.1\r\na: ", b"b" * 10_000_000) is TOO_LARGE
