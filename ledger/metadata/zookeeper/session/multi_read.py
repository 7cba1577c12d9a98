"""ZooKeeper's multiRead, which kazoo does not have: the values of many nodes by one request. Bytes only.

    request   for each node (type, not the last, -1), path, no watch; then (-1, the last, -1)
    response  for each node (type, not the last, error) and data and stat, or type -1 and the error again; then the end

Source: MultiOperationRecord and MultiResponse of ZooKeeper, whose servers know the request from version 3.6 on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import ClassVar

from kazoo.exceptions import EXCEPTIONS, MarshallingError, ZookeeperError

PATHS_MAX = 64
"""Of one request: enough that a request costs nothing next to what is read, and its response stays short."""

_GET_DATA = 4
_ERROR = -1
_HEADER = Struct("!i?i")
_LENGTH = Struct("!i")
_STAT = Struct("!32xi32x")
"""Of a node's stat only the version."""
_END = _HEADER.pack(-1, True, -1)

Read = tuple[bytes, int] | Exception
"""A node's value and version, or why it was not read."""


@dataclass(frozen=True, slots=True)
class MultiRead:
    """A request as kazoo takes them."""

    paths: Sequence[str]
    type: ClassVar[int] = 22

    def serialize(self) -> bytes:
        parts: list[bytes] = []
        for path in self.paths:
            encoded = path.encode()
            parts += (_HEADER.pack(_GET_DATA, False, -1), _LENGTH.pack(len(encoded)), encoded, b"\0")
        return b"".join((*parts, _END))

    def deserialize(self, response: bytes, offset: int) -> list[Read]:
        """One result for each path.

        Raises:
            MarshallingError: the response is no answer to this request.
        """
        results: list[Read] = []
        while True:
            kind, is_last, _ = _unpack(_HEADER, response, offset)
            offset += _HEADER.size
            if is_last:
                break
            if len(results) == len(self.paths):
                raise MarshallingError(f"multiRead of {len(self.paths)} nodes has more results")
            if kind == _GET_DATA:
                data, offset = _data(response, offset)
                [version] = _unpack(_STAT, response, offset)
                offset += _STAT.size
                results.append((data, version))
            elif kind == _ERROR:
                [code] = _unpack(_LENGTH, response, offset)
                offset += _LENGTH.size
                results.append(_error(code))
            else:
                raise MarshallingError(f"multiRead has a result of type {kind}")
        if len(results) != len(self.paths) or offset != len(response):
            raise MarshallingError(
                f"multiRead of {len(self.paths)} nodes has {len(results)} results and "
                f"{len(response) - offset} bytes after them"
            )
        return results


def _unpack(struct: Struct, response: bytes, offset: int) -> tuple[int, ...]:
    if len(response) - offset < struct.size:
        raise MarshallingError(f"multiRead ends after {len(response)} bytes, in the middle of a result")
    return struct.unpack_from(response, offset)


def _data(response: bytes, offset: int) -> tuple[bytes, int]:
    """A value, and where it ends. A node without a value has length -1."""
    [length] = _unpack(_LENGTH, response, offset)
    begin = offset + _LENGTH.size
    if not -1 <= length <= len(response) - begin:
        raise MarshallingError(f"multiRead has a value of {length} bytes, {len(response) - begin} are left")
    end = begin + max(length, 0)
    return response[begin:end], end


def _error(code: int) -> Exception:
    error: Exception = EXCEPTIONS[code]() if code in EXCEPTIONS else ZookeeperError(f"error {code}")
    return error
