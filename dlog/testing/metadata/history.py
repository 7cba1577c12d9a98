"""What clients did to compare-and-set registers, and what they heard: food for a linearizability checker.

A register is a record key, or `ledger/<id>`. Its state is a version and a value, or nothing. Moments are numbers
that rise with each invocation and each return, over all clients, so they order calls as real time does.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from itertools import count
from typing import Literal, TypeVar

from ledger.errors import (
    AlreadyExistsError,
    LogStoreError,
    MetadataVersionError,
    NotFoundError,
    OutcomeUnknownError,
)

T = TypeVar("T")
Operation = Literal["create", "read", "write", "remove"]


class CallOutcome(Enum):
    DONE = "done"
    """It took effect between its moments; a create also if it found what an earlier call of the same caller made."""
    ABSENT = "absent"
    """There was no such register at some moment between the two; nothing changed."""
    REFUSED = "refused"
    """At some moment between the two the version was another, or the register was there already; nothing changed."""
    NOT_DONE = "not done"
    """It never took and never takes effect."""
    UNKNOWN = "unknown"
    """It took effect at some moment after its invocation, perhaps long after its return, or never."""


@dataclass(slots=True)
class RegisterCall:
    """One call. `returned` is None while it is pending, and if its client died: as UNKNOWN."""

    client: str
    register: str
    operation: Operation
    expected: int | None
    """The version that a write or a remove named; None for any."""
    value: bytes | None
    """What was to be written; after a read what was found."""
    invoked: int
    returned: int | None = None
    outcome: CallOutcome = CallOutcome.UNKNOWN
    version: int | None = None
    """Of the register after the call, if it is DONE and the register is there."""


class RegisterHistory:
    """Every call, in the order of invocation."""

    def __init__(self) -> None:
        self.calls: list[RegisterCall] = []
        self._moments = count(1)
        self._ended = False

    def of(self, register: str) -> list[RegisterCall]:
        return [call for call in self.calls if call.register == register]

    def invoke(
        self,
        client: str,
        register: str,
        operation: Operation,
        *,
        expected: int | None = None,
        value: bytes | None = None,
    ) -> RegisterCall:
        """A call begins."""
        call = RegisterCall(client, register, operation, expected, value, next(self._moments))
        if not self._ended:
            self.calls.append(call)
        return call

    def end(self) -> None:
        """What is called, and what returns, from now on is not kept: values are about to change by themselves."""
        self._ended = True

    async def follow(
        self, call: RegisterCall, answer: Awaitable[T], found: Callable[[T], tuple[int | None, bytes | None]]
    ) -> T:
        """Await the answer and keep what became of the call; `found` takes version and value out of it."""
        try:
            result = await answer
        except (LogStoreError, CancelledError) as error:
            if not self._ended:
                call.outcome, call.returned = _outcome(error), next(self._moments)
            raise
        if not self._ended:
            call.outcome, call.returned = CallOutcome.DONE, next(self._moments)
            call.version, call.value = found(result)
        return result


def _outcome(error: BaseException) -> CallOutcome:
    match error:
        case NotFoundError():
            return CallOutcome.ABSENT
        case AlreadyExistsError() | MetadataVersionError():
            return CallOutcome.REFUSED
        case OutcomeUnknownError() | CancelledError():
            return CallOutcome.UNKNOWN
        case _:
            return CallOutcome.NOT_DONE
