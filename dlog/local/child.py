"""Runs a program that ends with its parent: `python -m dlog.local.child PARENT_PID PROGRAM ARGUMENT…`.

The kernel sends it SIGTERM when the parent ends, however it ends. It has its own session, so Ctrl-C in the terminal
does not reach it: the parent decides when it stops. (Doing this between fork and exec would run Python in a process
that had threads.)
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, *command = sys.argv[1:]
    os.setsid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != int(parent):
        # The parent died before prctl took effect.
        sys.exit(1)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
