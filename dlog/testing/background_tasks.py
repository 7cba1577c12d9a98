"""Which tasks of production code may end with an error of its own, because something awaits them that gets the error.

Any other task that ends so has lost its error: a loop in the background that was to run as long as its owner, whose end
is retrieved and dropped. A run that looks well then goes on with a part of the system dead.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from inspect import iscoroutine
from pathlib import Path
from typing import Any

import bookie_server
import dlog
import ledger
from dlog.errors import RecordFormatError
from ledger.errors import LogStoreError

AWAITED: Mapping[str, str] = {
    "LogClient.*": "a call of the user, who gets the error",
    "LogAdmin.*": "a call of the user, who gets the error",
    "LogWriter.*": "a call of the user, who gets the error",
    "Reader.*": "a call of the user; the next call raises the error of an opening that took longer",
    "Fetcher._run": "the next `take` raises it",
    "HistoryPages.ledger_list.<locals>.read": "a walk along a list ends before a page that fails",
    "_recover_one": "recover_ledgers awaits all of them and raises the first error",
    "ReadHandle._read_striped.<locals>.one": "the read of the whole range awaits it",
    "ConnectionSet._connect": "each request that waits for the connection gets the error",
    "KeyValueRepair.mark": "the auditor awaits many of them and raises the first error",
    "Source._batch": "the copy awaits many of them and raises the first error",
    "Draining._pass.<locals>.drain": "the pass awaits all of them and raises the first error",
    "LedgerMaker.create": "the takeover awaits it once the ledgers are fenced, or gives it up for another error",
    "each.<locals>.work_on": "`each` awaits all of them and raises the first error",
    "RecoveryRunner._read": "the recovery awaits it, except reads after the end of the ledger, which may fail",
    "RecoveryRunner.run": "each `open_with_recovery` of this ledger awaits it",
}
"""By the qualified name of the task's coroutine, or a pattern: what gets its error."""

ENDS_ITS_WRITER = ("RecordWatch._run", "RotationRunner._*")
"""Tasks whose error ends the writer, whose calls then raise it: only a lost or damaged record may do so."""

_PACKAGES = tuple(str(Path(package.__path__[0])) + "/" for package in (dlog, ledger, bookie_server))
_TESTING = str(Path(__file__).parent) + "/"


def has_lost_its_error(coroutine: Any, error: BaseException) -> bool:
    """Whether a task of this coroutine that ended with the error has ended without notice."""
    if not isinstance(error, LogStoreError) or not iscoroutine(coroutine):
        return False
    file = coroutine.cr_code.co_filename
    if file.startswith(_TESTING) or not file.startswith(_PACKAGES):
        return False  # of the swarm or of a test, which decide for themselves what they expect
    may_end = (*AWAITED, *ENDS_ITS_WRITER) if isinstance(error, RecordFormatError) else AWAITED
    return not any(fnmatchcase(coroutine.__qualname__, name) for name in may_end)
