"""Starts our commands as processes forked from one that has imported them: most of a command's time is its imports.

`Forked` is a `subprocess.Popen` for `python -m MODULE ARGUMENTS`: a process of its own, with pipes, signals and an exit
code. It differs from one that was started from a file in three things only: of the variables that the interpreter reads
when it starts only PYTHONIOENCODING has an effect, its memory includes what other commands import, and its parent is
another process.

The server is started with the first command, one in each process of the tests, and ends with it.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, AnyStr

from tests.helpers.repository import ROOT

_IMPORTED = (
    "bookie_server.config_file",
    "bookie_server.process",
    "bookie_server.tools.admin",
    "bookie_server.tools.cli",
    "dlog.blocking.client",
    "dlog.cli.main",
    "dlog.client",
    "dlog.inspection.verify",
    "dlog.local.embedded",
    "kazoo.client",
)
_REQUEST_MAX = 1 << 20
_NUMBER = struct.Struct("<i")


class Forked(subprocess.Popen[AnyStr]):
    """Takes the module and its arguments instead of a command line, and the streams, `cwd` and `env` of Popen."""

    def __init__(self, module: str, *arguments: str, **options: Any) -> None:
        assert options.keys() <= {"stdin", "stdout", "stderr", "text", "cwd", "env"}, options
        self.status_end = -1
        """Readable once it has ended."""
        super().__init__([module, *arguments], **options)

    # CPython's subprocess.py calls these three: to start the process, to wait for it, and to look at it.

    def _execute_child(
        self,
        args: Sequence[str],
        _executable: object,
        _preexec_fn: object,
        _close_fds: object,
        _pass_fds: object,
        cwd: Path | None,
        env: Mapping[str, str] | None,
        _startupinfo: object,
        _creationflags: object,
        _shell: object,
        *more: Any,
    ) -> None:
        pipes = more[:6]
        theirs = (pipes[0], pipes[3], pipes[5])  # -1: the stream of this process
        streams: list[int] = [stream if end == -1 else end for stream, end in enumerate(theirs)]
        request = {
            "arguments": list(args),
            "cwd": str(cwd or Path.cwd()),
            "environment": dict(os.environ if env is None else env),
        }
        self.status_end, status = os.pipe()
        try:
            self.pid = _server().fork(request, [*streams, status])
            self._child_created = True
        finally:
            os.close(status)
            self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        status = select.poll()
        status.register(self.status_end, select.POLLIN)
        if not status.poll(0 if wait_flags == os.WNOHANG else None):
            return 0, 0
        found = os.read(self.status_end, _NUMBER.size)
        assert found, "the server of forked commands has ended"
        os.close(self.status_end)
        return self.pid, _NUMBER.unpack(found)[0]

    def _internal_poll(self, *_: object, **__: object) -> int | None:
        if self.returncode is None and self._waitpid_lock.acquire(False):  # type: ignore[attr-defined]
            try:
                if self.returncode is None:
                    pid, status = self._try_wait(os.WNOHANG)
                    if pid:
                        self._handle_exitstatus(status)  # type: ignore[attr-defined]
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode


def run_forked(
    module: str, *arguments: str, stdin: AnyStr, timeout_s: float, **options: Any
) -> subprocess.CompletedProcess[AnyStr]:
    """Run it to its end, as `subprocess.run` does; `stdin` is what it reads."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with Forked[AnyStr](module, *arguments, **pipes, **options) as process:
        try:
            out, errors = process.communicate(stdin, timeout=timeout_s)
        finally:
            process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, out, errors)


class ForkedForLoop:
    """The same for code that waits in an event loop: what it uses of `asyncio.subprocess.Process`, errors in stdout."""

    def __init__(self, module: str, *arguments: str, cwd: Path) -> None:
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        self._process: Forked[bytes] = Forked(module, *arguments, cwd=cwd, **streams)
        self.pid = self._process.pid
        self.stdout = asyncio.StreamReader()
        self._has_ended = asyncio.Event()

    async def listen(self) -> None:
        """Begin to read what it prints, and to wait for its end."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._process.status_end, self._ended, loop)
        await loop.connect_read_pipe(lambda: _Printed(self.stdout), self._process.stdout)

    def _ended(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.remove_reader(self._process.status_end)
        self._process.wait()
        self._has_ended.set()

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):  # it has ended, and the loop has not heard of it yet
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def wait(self) -> int:
        await self._has_ended.wait()
        assert self.returncode is not None
        return self.returncode


class _Printed(asyncio.StreamReaderProtocol):
    def eof_received(self) -> bool:
        super().eof_received()
        return False  # the pipe is closed then


class _Server:
    """The process that forks, as the tests see it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def close(self) -> None:
        """No command is running any more, or it does not matter what becomes of it."""
        self._connection.close()
        self._process.wait()

    def fork(self, request: dict[str, Any], descriptors: list[int]) -> int:
        """The process id of the new command."""
        with self._lock:
            socket.send_fds(self._connection, [json.dumps(request).encode()], descriptors)
            return int(_NUMBER.unpack(self._connection.recv(_NUMBER.size))[0])


@cache
def _server() -> _Server:
    server = _Server()
    atexit.register(server.close)
    return server


def _serve(connection: socket.socket) -> list[str]:
    """In each command that is forked, return its module and arguments; in the server, return none at the end."""
    poller = select.poll()
    poller.register(connection, select.POLLIN)
    running: dict[int, tuple[int, int]] = {}
    while True:
        for descriptor, _ in poller.poll():
            if descriptor in running:
                poller.unregister(descriptor)
                pid, status_end = running.pop(descriptor)
                with suppress(BrokenPipeError):  # the test has ended without waiting for it
                    os.write(status_end, _NUMBER.pack(os.waitpid(pid, 0)[1]))
                os.close(descriptor)
                os.close(status_end)
                continue
            message, descriptors, _, _ = socket.recv_fds(connection, _REQUEST_MAX, 4)
            if not message:
                return []
            pid = os.fork()
            if pid == 0:
                connection.detach()  # closed with all others, and must not close another one of its number
                return _become(json.loads(message), descriptors)
            for inherited in descriptors[:3]:
                os.close(inherited)
            watch = os.pidfd_open(pid)
            running[watch] = pid, descriptors[3]
            poller.register(watch, select.POLLIN)
            connection.send(_NUMBER.pack(pid))


def _become(request: dict[str, Any], descriptors: list[int]) -> list[str]:
    for stream, descriptor in enumerate(descriptors[:3]):
        os.dup2(descriptor, stream)
    os.closerange(3, max(descriptors) + 64)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    _renew_streams()
    return list(request["arguments"])


def _renew_streams() -> None:
    """A stream remembers of its file whether it is a pipe."""
    encoding, _, errors = os.environ.get("PYTHONIOENCODING", "").partition(":")
    encoding = encoding or sys.stdout.encoding
    kept: dict[str, Any] = {"encoding": encoding, "errors": errors or sys.stdout.errors, "closefd": False}
    sys.stdin = open(0, **kept)  # noqa: SIM115  # open until the command ends
    sys.stdout = open(1, "w", **kept)  # noqa: SIM115
    kept["errors"] = "backslashreplace"
    sys.stderr = open(2, "w", buffering=1, **kept)  # noqa: SIM115


def _main() -> None:
    for name in _IMPORTED:
        __import__(name)
    gc.freeze()
    command = _serve(socket.socket(fileno=int(sys.argv[1])))
    if command:
        sys.argv = command
        sys.modules.pop(command[0], None)  # as with `python -m`, which runs it as `__main__` only
        runpy.run_module(command[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()
