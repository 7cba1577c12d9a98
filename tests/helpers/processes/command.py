"""Runs the commands as a user does: a process of its own, with its exit code and what it printed."""

from __future__ import annotations

import io
import os
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from unittest.mock import patch

from dlog.cli.main import app
from tests.helpers.processes.forking import Forked, run_forked
from tests.helpers.repository import ROOT


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    def must_succeed(self) -> str:
        assert self.code == 0, self.err
        return self.out

    def must_fail(self, code: int, *parts: str) -> str:
        """One sentence on stderr that has all the parts, this exit code, nothing on stdout, no traceback."""
        assert self.code == code, (self.code, self.err)
        assert "Traceback" not in self.err
        assert self.out == ""
        sentence = self.err.rstrip("\n").splitlines()[-1]
        assert sentence.startswith(("dlog: ", "bookie: "))
        for part in parts:
            assert part in sentence, sentence
        return sentence


@dataclass(frozen=True)
class Command:
    """`dlog` with the address of one cluster."""

    uri: str = ""

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name != "DLOG_METADATA"}
        return {**kept, "PYTHONPATH": str(ROOT), **({"DLOG_METADATA": self.uri} if self.uri else {})}

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start it with pipes on all three streams."""
        return Forked(
            "dlog.cli.main",
            *arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment(),
        )

    def __call__(self, *arguments: str, stdin: bytes = b"", timeout_s: float = 60) -> Result:
        environment = self.environment()
        done = run_forked("dlog.cli.main", *arguments, stdin=stdin, timeout_s=timeout_s, env=environment)
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode())

    def here(self, *arguments: str) -> Result:
        """The same without a process of its own, for what ends before it reads input: many times faster."""
        out, err = io.TextIOWrapper(io.BytesIO(), write_through=True), io.StringIO()
        environment = {"DLOG_METADATA": self.uri} if self.uri else {}
        with patch.dict(os.environ, environment), redirect_stdout(out), redirect_stderr(err):
            try:
                app(arguments, prog_name="dlog")
            except SystemExit as end:
                assert end.code is None or isinstance(end.code, int)
                return Result(end.code or 0, out.buffer.getvalue().decode(), err.getvalue())  # type: ignore[attr-defined]  # the BytesIO above
        raise AssertionError("the command did not end")


def bookie(*arguments: str, timeout_s: float = 60, uri: str = "") -> Result:
    """`bookie`, for what must end by itself."""
    environment = Command(uri).environment()
    done = run_forked("bookie_server", *arguments, stdin=b"", timeout_s=timeout_s, env=environment)
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())
