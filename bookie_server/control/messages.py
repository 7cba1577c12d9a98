"""Requests to a running bookie, and its answers: one JSON object a line. Pure.

A request has one answer. Until that is there, an empty object each `HEARTBEAT_S` says that the bookie works on it.
Both ends are of the same machine and mostly of the same version; what one does not know it refuses in a sentence.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from bookie_server.storage.compaction.compactor import Compacted
from bookie_server.storage.compaction.space import FileSpace
from ledger.errors import ProtocolError

SOCKET_NAME = "control"
"""In the ledger directory, for the bookie's user alone."""
REQUEST_BYTES_MAX = 4096
HEARTBEAT_S = 2.0


class Command(StrEnum):
    SPACE = "space"
    COMPACT = "compact"
    SCRUB = "scrub"
    REBUILD_INDEX = "rebuild-index"
    STATUS = "status"


@dataclass(frozen=True, slots=True)
class Request:
    command: Command
    threshold: float = 0.0
    """Of a compaction: files of which a smaller part is live."""


@dataclass(frozen=True, slots=True)
class Answer:
    """`error`: why the bookie has not done it, in a sentence. Otherwise `result` has what was asked for.

    A list that may be long is an iterator there, and is encoded element by element.
    """

    result: Any = None
    error: str = ""


def encode_request(request: Request) -> bytes:
    return _line({"command": request.command, "threshold": request.threshold})


def decode_request(line: bytes) -> Request:
    """ProtocolError for what is no request of this version."""
    try:
        fields = json.loads(line)
        threshold = float(fields["threshold"])
        if not 0 <= threshold <= 1:
            raise ValueError(f"threshold {threshold} is not in 0..1")
        return Request(Command(fields["command"]), threshold)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise ProtocolError(f"this bookie does not know the request ({error}): restart it") from error


def encode_answer(answer: Answer) -> Iterator[bytes]:
    """The line, in pieces between which the bookie may serve its clients."""
    if answer.error or not isinstance(answer.result, Iterator):
        yield _line({"error": answer.error} if answer.error else {"result": answer.result})
        return
    yield b'{"result":['
    for number, each in enumerate(answer.result):
        yield (b"," if number else b"") + _encoded(each)
    yield b"]}\n"


def decode_answer(line: bytes) -> Answer | None:
    """None for a heartbeat. ProtocolError."""
    try:
        fields = json.loads(line)
        if not isinstance(fields, dict):
            raise TypeError("no object")
    except (ValueError, TypeError, RecursionError) as error:
        raise ProtocolError(f"the bookie's answer is not understood ({error}): restart it") from error
    return Answer(fields.get("result"), str(fields.get("error", ""))) if fields else None


HEARTBEAT = b"{}\n"


def files_result(files: Iterable[FileSpace]) -> Iterator[dict[str, object]]:
    """For `Answer.result`. One element for each file: together they may name a million ledgers."""
    for each in files:
        yield {
            "log_id": each.log_id,
            "path": str(each.path),
            "bytes": each.file_bytes,
            "ledgers": list(each.ledgers.items()),
        }


def files_of(result: Sequence[Mapping[str, Any]]) -> list[FileSpace]:
    """What `files_result` was given; the result as it was decoded."""
    return [
        FileSpace(
            int(each["log_id"]),
            Path(each["path"]),
            int(each["bytes"]),
            {int(ledger_id): int(live) for ledger_id, live in each["ledgers"]},
        )
        for each in result
    ]


def compacted_result(done: Compacted) -> dict[str, object]:
    """For `Answer.result`."""
    return {
        "files_removed": done.files_removed,
        "copied_bytes": done.copied_bytes,
        "refusal": done.refusal,
    }


def compacted_of(result: Mapping[str, Any]) -> Compacted:
    """What `compacted_result` was given."""
    return Compacted(int(result["files_removed"]), int(result["copied_bytes"]), str(result["refusal"]))


def _line(fields: Mapping[str, object]) -> bytes:
    return _encoded(fields) + b"\n"


def _encoded(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
