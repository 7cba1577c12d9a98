"""What `dlog append` reports of an input that it could not append to its end."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from itertools import count
from types import FrameType
from typing import Any

import pytest

from dlog.cli.append import RUN_BYTES, Acknowledged, _append_all, _runs
from dlog.cli.input.message import Group, NewMessage
from dlog.errors import AppendAbortedError
from dlog.format.entry import ENTRY_OVERHEAD_BYTES
from dlog.format.message import Columns, columns_bytes, flat_headers
from dlog.model import MessageId

RUN = 10


class Done:
    """A run that is durable."""

    def __init__(self, ids: Sequence[MessageId]) -> None:
        self._ids = ids

    def done(self) -> bool:
        return True

    def result(self) -> Sequence[MessageId]:
        return self._ids


class Log:
    """Takes every run, and then fails the call if it is to."""

    def __init__(self, failing_call: int = 0, error: BaseException | None = None) -> None:
        self.count = self.calls = 0
        self._failing_call, self._error = failing_call, error

    def submit_many(self, payloads: Sequence[bytes | None], **_: Any) -> Done:
        self.calls += 1
        if self.calls == self._failing_call and isinstance(self._error, AppendAbortedError):
            raise self._error
        ids = [MessageId(1, self.calls, batch) for batch in range(len(payloads))]
        self.count += len(ids)
        if self.calls == self._failing_call and self._error is not None:
            raise self._error
        return Done(ids)


def groups(number: int) -> Iterator[Group]:
    return iter([[NewMessage(None, b"x")] * RUN] * number)


def reported(text: str) -> tuple[int, int]:
    """Messages that are acknowledged, and those that may have been appended."""
    acknowledged = re.search(r"(\d+) messages? (acknowledged|appended)", text)
    unknown = re.search(r"(\d+) more may or may not", text)
    return int(acknowledged[1]) if acknowledged else 0, int(unknown[1]) if unknown else 0


def test_a_run_whose_submission_is_interrupted_may_have_been_appended(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = Log(3, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        _append_all(groups(5), log.submit_many, Acknowledged(), lambda: None)
    assert log.count == 3 * RUN
    assert reported(capsys.readouterr().err) == (2 * RUN, RUN)


def test_a_run_that_was_refused_is_absent(capsys: pytest.CaptureFixture[str]) -> None:
    log = Log(3, AppendAbortedError("closed"))
    with pytest.raises(AppendAbortedError):
        _append_all(groups(5), log.submit_many, Acknowledged(), lambda: None)
    assert log.count == 2 * RUN
    assert reported(capsys.readouterr().err) == (2 * RUN, 0)


def test_wherever_it_is_interrupted_each_run_is_counted_once(capsys: pytest.CaptureFixture[str]) -> None:
    for step in count(1):
        log, acknowledged = Log(), Acknowledged()
        with Interrupt(step) as interrupt:
            try:
                _append_all(groups(3), log.submit_many, acknowledged, lambda: None)
            except KeyboardInterrupt:
                interrupt.stop()
        found = capsys.readouterr()
        if not interrupt.struck:
            break
        if not found.err:  # before the first run, or after the last one
            assert log.count in (0, 3 * RUN), step
            continue
        durable, unknown = reported(found.err)
        assert durable <= log.count <= durable + unknown, (step, found.err, log.count)
        assert unknown <= RUN, (step, found.err)


class Interrupt:
    """Raises KeyboardInterrupt before the `step`th bytecode of the functions under test."""

    def __init__(self, step: int) -> None:
        self._left = step
        self.struck = False
        self._earlier = sys.gettrace()

    def __enter__(self) -> Interrupt:
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        sys.settrace(self._earlier)

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if self.struck or not code.co_filename.endswith("cli/append.py"):
            return None
        # The report itself is not under test, nor is what follows it.
        if code.co_name not in ("submit", "collect", "_count_first", "_append_all"):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self._left -= 1
            if self._left == 0:
                self.struck = True
                raise KeyboardInterrupt
        return self._trace


def test_runs_of_many_small_headers_fit_into_an_entry() -> None:
    """Each header takes four bytes more than its name and value; of empty columns that is all it has."""
    message = NewMessage(None, b"x", ((b"", b""),) * 300)
    sizes = []

    def submit_many(payloads: Sequence[bytes | None], *, keys: Any, headers: Any) -> Done:
        flat = list(map(flat_headers, headers))
        sizes.append(columns_bytes(Columns(keys, payloads, flat)) + ENTRY_OVERHEAD_BYTES)
        return Done([MessageId(1, 1, batch) for batch in range(len(payloads))])

    runs = _runs([[message] * 3_000])
    _append_all(runs, submit_many, Acknowledged(), lambda: None)
    assert max(sizes) <= RUN_BYTES + ENTRY_OVERHEAD_BYTES
    assert len(sizes) < 20


def test_one_message_that_was_there_before_is_one() -> None:
    for number, expected in ((1, "; 1 was in the log before"), (2, "; 2 were in the log before")):
        acknowledged = Acknowledged()
        acknowledged.submit(number, lambda: Done([]))
        acknowledged.collect(0)
        assert acknowledged.summary("appended").endswith(expected)
