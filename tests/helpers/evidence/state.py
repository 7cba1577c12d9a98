"""Whether a result is of the current code, in words."""

from __future__ import annotations

import subprocess

from tests.helpers.evidence.sources import changed_modules, fingerprint

CURRENT = "what it exercises is the same in the commit of this page"
STALE = "what it exercises has changed since"
_NAMED_MAX = 4


def state_of(result: str, its_fingerprint: str, commit: str) -> str:
    """One sentence: which commit was run, and what has changed between it and the current code."""
    if its_fingerprint == fingerprint(result):
        return f"Commit `{commit}`; {CURRENT}."
    return f"Commit `{commit}`; {STALE}{_changes(result, commit)}: it has to be run again."


def _changes(result: str, commit: str) -> str:
    try:
        changed = changed_modules(result, commit)
    except (
        subprocess.CalledProcessError,
        LookupError,
    ):  # changes were never committed, or git lacks the commit
        return ""
    names = ", ".join(f"`{path}`" for path in changed[:_NAMED_MAX])
    more = len(changed) - _NAMED_MAX
    return f" ({names}{f' and {more} more' if more > 0 else ''})"
