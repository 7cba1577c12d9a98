"""Commands on a terminal of a given width."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from typing import BinaryIO

from tests.helpers.processes.command import Command


def on_terminal(
    width: int,
    module: str,
    *arguments: str,
    uri: str,
    interrupt_at: bytes = b"",
    stdout: BinaryIO | None = None,
) -> str:
    """All that the command writes to a terminal of this width; it must succeed.

    `interrupt_at`: press Ctrl-C once this was shown, for a command that does not end by itself.
    `stdout`: a file that gets the output instead; the terminal has stdin and stderr.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    environment = {name: value for name, value in Command(uri).environment().items() if name != "COLUMNS"}
    with subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdin=theirs,
        stdout=stdout or theirs,
        stderr=theirs,
        env={**environment, "TERM": "xterm"},
    ) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            shown += part
            if interrupt_at and interrupt_at in shown:
                process.send_signal(signal.SIGINT)
                interrupt_at = b""
    os.close(ours)
    assert process.returncode == 0, shown
    return shown.decode().replace("\r\n", "\n")
