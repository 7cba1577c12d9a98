"""The one place where errors become a sentence on stderr and an exit code.

0   done; also when the reader of our output went away (a broken pipe)
1   failed: something could not be reached, was not there, or was taken away
2   wrong use: the call must be changed; nothing was done
"""

from __future__ import annotations

import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from ledger.errors import ConfigurationError, LogStoreError

DONE, FAILED, WRONG_USE = 0, 1, 2


class Boundary(TyperGroup):
    """Runs a command; whatever it raises on purpose ends here, without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except LogStoreError as error:
            raise typer.Exit(say(error)) from error
        except BrokenPipeError:
            _drop_output()
            raise typer.Exit(DONE) from None
        except KeyboardInterrupt:
            print("dlog: interrupted", file=sys.stderr)
            raise typer.Exit(FAILED) from None
        except OSError as error:
            where = f" ({error.filename})" if error.filename else ""
            print(f"dlog: {error.strerror or error}{where}", file=sys.stderr)
            raise typer.Exit(FAILED) from error
        return result


def say(error: LogStoreError) -> int:
    """Print one sentence and return the exit code that goes with the error's branch."""
    print(f"dlog: {' '.join(str(error).split())}", file=sys.stderr)
    return WRONG_USE if isinstance(error, ConfigurationError) else FAILED


def _drop_output() -> None:
    # Python flushes stdout once more at exit and would complain about the same pipe again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
