"""Appends that failed and whose outcome was not read: `flush` and `close` raise for them.

An outcome is read once `result()` or `exception()` of its future was called after the append had its outcome; an
`await` of the future does so, and a done callback that calls one of them. A cancelled append has no outcome to read.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlog.errors import AppendsFailedError


def unread_failures(log: str, errors: Sequence[BaseException]) -> AppendsFailedError | None:
    """One error for all of them, None if there are none."""
    if not errors:
        return None
    first = errors[0]
    error = AppendsFailedError(
        f"{len(errors)} {'appends' if len(errors) > 1 else 'append'} to log {log} failed and no result of "
        f"{'them' if len(errors) > 1 else 'it'} was read; the first: {first}",
        log=log,
        count=len(errors),
        first=first,
    )
    error.__cause__ = first
    return error


def in_one(failures: Sequence[AppendsFailedError]) -> AppendsFailedError | None:
    """The first one, with the others as notes; None if there are none."""
    for other in failures[1:]:
        failures[0].add_note(str(other))
    return failures[0] if failures else None


def raise_unless_raising(failure: AppendsFailedError, error: BaseException | None) -> None:
    """At the end of a `with` block: raise it, or add it as a note to the error that the block raises."""
    if error is None:
        raise failure
    error.add_note(str(failure))
