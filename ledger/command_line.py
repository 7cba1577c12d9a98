"""What both command lines share: exit codes, signals, broken pipes, and one sentence for an error.

0    success; also when the reader of the output closes the pipe
1    failure: something is unreachable, missing, or was taken over; wrong input after the takeover
2    wrong usage: correct the command; nothing was done
129  hung up (SIGHUP: its terminal was closed) before it was done
130  interrupted (Ctrl-C) before it was done
143  terminated (SIGTERM) before it was done

A command that runs until it is stopped (`dlog standalone`, `dlog tail -f`, `bookie start`) succeeds when it is
interrupted. Only the command-line programs import this module; it needs typer.
"""

from __future__ import annotations

import errno
import io
import math
import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from ledger.early_interrupt import EarlyInterrupt
from ledger.errors import ConfigurationError, LogStoreError
from ledger.printing import one_line

DONE, FAILED, WRONG_USE = 0, 1, 2
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
INTERRUPTED = 128 + signal.SIGINT
HELP_COLUMNS_MAX = 132
"""Of a wide terminal. With click's own limit of 80 most verbs are described by half a sentence."""
_ANSWER_BYTES_MAX = 1024
"""Of an answer to a question; what is not text may have no end of a line."""
_SENTENCES = {signal.SIGTERM: "terminated", signal.SIGHUP: "hung up"}


class DoneInPart(Exception):
    """Wrong usage that showed only after a part was done: exit code 1, since repeating the command does it again."""


@dataclass(slots=True)
class _Ending:
    """How the command ends if it is interrupted."""

    code: int = INTERRUPTED
    sentence: str = "interrupted"


class Boundary(TyperGroup):
    """Runs a command. Its errors end here, as one sentence without a traceback."""

    def make_context(self, info_name: str | None, args: list[str], *rest: Any, **more: Any) -> Any:
        # Here --help and --version print.
        if isinstance(sys.stdout, io.TextIOWrapper):  # a locale whose encoding lacks a character is no error
            sys.stdout.reconfigure(errors="backslashreplace")
        with _reported(info_name or "", _Ending()):
            return super().make_context(info_name, args, *rest, **more)

    def invoke(self, ctx: Any) -> Any:
        with _terminable() as ending, _reported(ctx.find_root().info_name, ending):
            result = super().invoke(ctx)
            sys.stdout.flush()
        return result


@contextmanager
def _reported(program: str, ending: _Ending) -> Iterator[None]:
    try:
        yield
    except LogStoreError as error:
        _exit(program, str(error), exit_code_of(error))
    except DoneInPart as error:
        _exit(program, str(error), FAILED)
    except KeyboardInterrupt:
        _exit(program, ending.sentence, ending.code)
    except BrokenPipeError as error:
        if not _reader_is_gone():
            _exit(program, _sentence(error), FAILED)
        _drop_output()
        raise typer.Exit(DONE) from None
    except OSError as error:
        _exit(program, _sentence(error), FAILED)
    finally:
        # CPython remembers an interrupt that passed through the exec of a string, as when a dataclass is made in an
        # import, though it was handled: `python -m` then ends by SIGINT, without the exit code. Another exec clears it.
        exec("")


@contextmanager
def _terminable() -> Iterator[_Ending]:
    """Handle SIGTERM and SIGHUP as SIGINT, with other exit codes, so that all clean up alike: by KeyboardInterrupt."""
    ending = _Ending()

    def terminate(number: int, frame: FrameType | None) -> None:
        ending.code, ending.sentence = 128 + number, _SENTENCES[signal.Signals(number)]
        if number == signal.SIGHUP:
            # A terminal that closes often sends two, its own and the shell's: the second must not end the clean-up.
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        interrupt = signal.getsignal(signal.SIGINT)
        if not callable(interrupt):  # a shell starts background jobs with SIGINT ignored
            raise KeyboardInterrupt
        interrupt(signal.SIGINT, frame)

    before = {each: signal.signal(each, terminate) for each in stop_signals() if each != signal.SIGINT}
    early = signal.getsignal(signal.SIGINT)
    if isinstance(early, EarlyInterrupt):
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield ending
    finally:
        if isinstance(early, EarlyInterrupt):
            signal.signal(signal.SIGINT, early)
        for each, handler in before.items():
            signal.signal(each, handler)


def version_option(program: str) -> Any:
    """The option `--version`: print the program's name and the version of the package that it belongs to, and exit."""

    def shown(requested: bool) -> None:
        if requested:
            from importlib.metadata import version

            # Flushed here, where an output that cannot be written ends in a sentence.
            print(f"{program} {version('dlog-bookkeeper')}", flush=True)
            raise typer.Exit

    return typer.Option("--version", callback=shown, is_eager=True, help="Show the version and exit.")


def not_nan(value: float | None) -> float | None:
    """Callback of an option with limits: no comparison finds NaN outside them, and typer before 0.29 only compares."""
    if value is not None and math.isnan(value):
        raise typer.BadParameter(f"{value} is no number.")
    return value


def stop_signals() -> list[signal.Signals]:
    """Signals that end a command. `nohup` has SIGHUP ignored: so it stays."""
    hang_up = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGINT, signal.SIGTERM, *hang_up]


def exit_code_of(error: LogStoreError) -> int:
    """Of a command that has done nothing before it failed so."""
    return WRONG_USE if isinstance(error, ConfigurationError) else FAILED


def say(program: str, sentence: str) -> None:
    """Print one sentence to stderr."""
    # If stderr is closed or its disk is full, the exit code still reports the failure.
    with suppress(OSError):
        print(f"{program}: {one_line(' '.join(sentence.split()))}", file=sys.stderr, flush=True)


def confirmed(question: str) -> bool:
    """Ask on stderr: stdout may be a file. The end of the input is a no, and so is what is no text."""
    print(question, "[y/N]: ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.buffer.readline(_ANSWER_BYTES_MAX)
    if not answer.endswith(b"\n"):  # no one has ended the line of the question
        print(file=sys.stderr, flush=True)
    return answer.strip().lower() in (b"y", b"yes")


def tell(line: str) -> None:
    """Print a line of a server to stdout. A line that cannot be written does not stop the server."""
    with suppress(OSError):
        os.write(sys.stdout.fileno(), f"{line}\n".encode())


def _exit(program: str, sentence: str, code: int) -> NoReturn:
    _flush_output()
    say(program, sentence)
    raise typer.Exit(code) from None


def _sentence(error: OSError) -> str:
    reason = error.strerror or str(error) or type(error).__name__
    if error.filename:
        return f"{reason} ({error.filename})"
    # Buffered output fails again when flushed; unbuffered output is recognised by the reason.
    unwritten = not _flush_output() or error.errno in _FULL
    return f"cannot write the output: {reason}" if unwritten else reason


def _flush_output() -> bool:
    """False if stdout cannot be written. It is then dropped: Python would fail on it again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        _drop_output()
        return False
    return True


def _reader_is_gone() -> bool:
    """Whether the reader of stdout has closed it; else the broken pipe was a socket."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


def interrupt_without_reader() -> None:
    """Interrupt the command when the reader of stdout closes it, for output that may pause indefinitely.

    A write would fail, but the next one may be hours away (`dlog tail -f orders | head -1`).
    """

    def watch() -> None:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        poll.poll()  # returns on an error or when the other end is closed; both are always reported
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="output", daemon=True).start()


def _drop_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
