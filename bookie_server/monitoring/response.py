"""The bytes of one HTTP/1.1 response, after which the connection is closed. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from bookie_server.monitoring.request import METHODS

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Response:
    status: HTTPStatus
    body: bytes
    content_type: str


def refusal(status: HTTPStatus) -> Response:
    """The status and its name."""
    return Response(status, f"{status.value} {status.phrase}\n".encode(), TEXT)


def json_response(fields: Mapping[str, object], status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(status, json.dumps(fields, indent=1).encode() + b"\n", JSON)


def encode_response(response: Response, *, with_body: bool = True) -> bytes:
    """`with_body`: False for HEAD."""
    lines = [
        f"HTTP/1.1 {response.status.value} {response.status.phrase}",
        f"Content-Type: {response.content_type}",
        f"Content-Length: {len(response.body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
    ]
    if response.status is HTTPStatus.METHOD_NOT_ALLOWED:
        lines.append(f"Allow: {', '.join(METHODS)}")
    head = "\r\n".join((*lines, "", "")).encode("ascii")
    return head + response.body if with_body else head
