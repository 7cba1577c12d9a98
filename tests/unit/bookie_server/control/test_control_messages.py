"""Requests to a running bookie and its answers, as lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from bookie_server.control.messages import (
    HEARTBEAT,
    Answer,
    Command,
    Request,
    compacted_of,
    compacted_result,
    decode_answer,
    decode_request,
    encode_answer,
    encode_request,
    files_of,
    files_result,
)
from bookie_server.storage.compaction.compactor import Compacted
from bookie_server.storage.compaction.space import FileSpace
from ledger.errors import ProtocolError


@pytest.mark.parametrize("request_", [Request(Command.SPACE), Request(Command.COMPACT, 0.25)])
def test_a_request_is_one_line(request_: Request) -> None:
    line = encode_request(request_)
    assert line.count(b"\n") == 1 and line.endswith(b"\n")
    assert decode_request(line) == request_


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"GET / HTTP/1.1\r\n",
        b"[]\n",
        b'{"command":"space"}\n',
        b'{"command":"format","threshold":0}\n',
        b'{"command":"compact","threshold":1.5}\n',
        b'{"command":"compact","threshold":NaN}\n',
        b'{"command":"compact","threshold":1' + b"0" * 400 + b"}\n",
        b'{"command":["space"],"threshold":0}\n',
        b"\xff\xfe\n",
        b"[" * 100_000 + b"\n",
    ],
)
def test_what_is_no_request_is_refused(line: bytes) -> None:
    with pytest.raises(ProtocolError, match="does not know the request"):
        decode_request(line)


@pytest.mark.parametrize("answer", [Answer({"a": 1}), Answer([]), Answer(error="the disk is full")])
def test_an_answer_is_one_line(answer: Answer) -> None:
    line = b"".join(encode_answer(answer))
    assert line.count(b"\n") == 1 and line.endswith(b"\n")
    assert decode_answer(line) == answer


def test_a_heartbeat_is_no_answer() -> None:
    assert decode_answer(HEARTBEAT) is None


@pytest.mark.parametrize("line", [b"", b"[1]\n", b"no\n", b"\xff\n"])
def test_what_is_no_answer_is_refused(line: bytes) -> None:
    with pytest.raises(ProtocolError, match="not understood"):
        decode_answer(line)


def test_results_come_back_as_they_were() -> None:
    files = [
        FileSpace(1, Path("/srv/1.log"), 4096, {7: 100, 2**62: 1}),
        FileSpace(2**63, Path("/j/ü"), 0, {}),
    ]
    line = b"".join(encode_answer(Answer(files_result(files))))
    answer = decode_answer(line)
    assert answer is not None and files_of(answer.result) == files
    done = Compacted(2, 100, "compaction needs 1 byte")
    answer = decode_answer(b"".join(encode_answer(Answer(compacted_result(done)))))
    assert answer is not None and compacted_of(answer.result) == done
