"""Where the bytes of `dlog append` come from."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from dlog.cli.input.source import CHUNK_BYTES, chunks_of


def test_a_file_whose_descriptor_is_above_what_select_takes(tmp_path: Path) -> None:
    """As in a process that has inherited a thousand others."""
    data, high = b"x" * (CHUNK_BYTES + 1), 1100
    (tmp_path / "file").write_bytes(data)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, high + 1), hard))
    try:
        with (tmp_path / "file").open("rb") as file:
            os.dup2(file.fileno(), high)
        with os.fdopen(high, "rb", buffering=0) as source:
            read: list[int] = []
            assert b"".join(chunks_of(source, read.append, lambda: None)) == data
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert sum(read) == len(data)


def test_the_check_is_called_while_a_pipe_is_silent() -> None:
    readable, writable = os.pipe()
    calls: list[int] = []

    def check() -> None:
        calls.append(1)
        if len(calls) == 1:
            os.write(writable, b"late")
        os.close(writable)

    with os.fdopen(readable, "rb", buffering=0) as source:
        assert list(chunks_of(source, lambda count: None, check)) == [b"late"]
    assert calls == [1]
