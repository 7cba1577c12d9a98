"""C16: compare-and-set registers are linearizable. Decided from what their clients saw, register by register.

Every value of a register has a version, one above the one before it. So a history is explained by moments
T0 < T1 < … at which the versions came into being, and each call tells where a moment can lie: a write between its
invocation and its return (if its outcome is unknown: at any time after it), a read of version v in a time that
overlaps with Tv … Tv+1, a refusal in one that reaches out of the version it named. Bounds that follow from these
are tightened along the versions; where an upper one lies below a lower one, no order explains the history.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from math import inf

from dlog.testing.metadata.history import CallOutcome, RegisterCall, RegisterHistory


def c16_registers_are_linearizable(history: RegisterHistory) -> Iterator[str]:
    registers: dict[str, list[RegisterCall]] = defaultdict(list)
    for call in history.calls:
        if call.register:  # else a create that never reached the server: no register came of it
            registers[call.register].append(call)
    for register, calls in registers.items():
        for found in _Register(calls).findings():
            yield f"{register}: {found}"


class _Register:
    def __init__(self, calls: Iterable[RegisterCall]) -> None:
        self._calls = list(calls)
        self._seen: dict[int, RegisterCall] = {}
        """For each version a call that knows its value."""
        self._low: list[float] = []
        """Version v came into being after this …"""
        self._high: list[float] = []
        """… and before this."""
        self._gone_before = inf
        """It was removed before this, if it was certainly removed."""
        self._gone_after = inf
        self._late_creates = 0
        """Creates before its removal whose outcome is unknown: each may come to the server after it."""

    def findings(self) -> Iterator[str]:
        yield from self._values()
        if not self._seen:
            return
        yield from self._bounds()
        yield from self._moments()
        yield from self._removed()

    # ---- values

    def _values(self) -> Iterator[str]:
        for call in self._calls:
            if call.outcome is not CallOutcome.DONE or call.version is None:
                continue
            first = self._seen.setdefault(call.version, call)
            if first.value != call.value:
                yield f"version {call.version} has two values: {_describe(first)}, {_describe(call)}"
            elif first is not call and not _may_share_a_version(first, call):
                yield f"version {call.version} was written twice: {_describe(first)}, {_describe(call)}"

    def _writers_of(self, version: int) -> list[RegisterCall]:
        """Clients that can have written it: one that knows, else any whose outcome is unknown."""
        value = self._seen[version].value if version in self._seen else None
        found = []
        for call in self._calls:
            if call.operation != ("create" if version == 0 else "write"):
                continue
            if call.outcome is CallOutcome.DONE and call.version == version:
                return [call]
            names_it = version == 0 or call.expected == version - 1
            if call.outcome is CallOutcome.UNKNOWN and names_it and value in (None, call.value):
                found.append(call)
        return found

    # ---- moments

    def _bounds(self) -> Iterator[str]:
        last = max(self._seen)
        self._low, self._high = [0.0] * (last + 1), [inf] * (last + 1)
        for version in range(last + 1):
            writers = self._writers_of(version)
            if not writers:
                yield f"no client can have written version {version}"
                continue
            self._low[version] = min(call.invoked for call in writers)
            if len(writers) == 1 and writers[0].outcome is CallOutcome.DONE:
                self._high[version] = _end(writers[0])
        for call in self._calls:
            if call.outcome is CallOutcome.DONE and call.operation == "read" and call.version is not None:
                self._high[call.version] = min(self._high[call.version], _end(call))
                if call.version < last:
                    self._low[call.version + 1] = max(self._low[call.version + 1], call.invoked)
        self._removals()
        for version in range(1, last + 1):
            self._low[version] = max(self._low[version], self._low[version - 1])
        for version in reversed(range(last)):
            self._high[version] = min(self._high[version], self._high[version + 1])

    def _removals(self) -> None:
        removals = [call for call in self._calls if call.operation == "remove"]
        for call in removals:
            if call.outcome in (CallOutcome.DONE, CallOutcome.UNKNOWN):
                self._gone_after = min(self._gone_after, call.invoked)
            if call.outcome is CallOutcome.DONE:
                self._gone_before = min(self._gone_before, _end(call))
        self._late_creates = sum(
            call.operation == "create"
            and call.outcome is CallOutcome.UNKNOWN
            and call.invoked < self._gone_before
            for call in self._calls
        )
        if self._late_creates:
            self._gone_before = inf
        self._high[-1] = min(self._high[-1], self._gone_before)

    # ---- removals

    def _removed(self) -> Iterator[str]:
        """A register is removed once, at the version that the call named, and comes back by a late create only."""
        done = [
            call for call in self._calls if call.operation == "remove" and call.outcome is CallOutcome.DONE
        ]
        for again in done[1 + self._late_creates :]:
            yield f"was removed twice: {_describe(done[0])}, {_describe(again)}"
        last = len(self._low) - 1
        for call in done:
            expected = last if call.expected is None else call.expected
            if expected < last:
                yield f"was removed at version {expected}, but has version {last}: {_describe(call)}"
            for version in range(last + 1, expected + 1):
                if not self._writers_of(version):
                    yield f"was removed at version {version}, which no client can have written: {_describe(call)}"

    def _moments(self) -> Iterator[str]:
        for version, (low, high) in enumerate(zip(self._low, self._high, strict=True)):
            if low >= high:
                yield (
                    f"version {version} ({_describe(self._seen.get(version))}) came after moment {low} and before "
                    f"moment {high}"
                )
        for call in self._calls:
            if wrong := self._impossible(call):
                yield f"{_describe(call)} {wrong}"

    def _impossible(self, call: RegisterCall) -> str | None:
        match call.outcome:
            case CallOutcome.DONE if call.operation != "remove" and call.invoked > self._gone_before:
                return "found what had been removed"
            case CallOutcome.REFUSED if call.invoked > self._gone_before:
                return "was refused for a version, although the register had been removed"
            case CallOutcome.ABSENT if call.invoked > self._high[0] and _end(call) < self._gone_after:
                return "found nothing, although it was there all the time"
            case CallOutcome.REFUSED if call.operation == "create" and _end(call) < self._low[0]:
                return "found a register that was not there yet"
            case CallOutcome.REFUSED if call.expected is not None and self._had_throughout(call):
                return "was refused, although the version was as expected all the time"
        return None

    def _had_throughout(self, call: RegisterCall) -> bool:
        version = call.expected
        assert version is not None
        if version >= len(self._high):
            return False
        until = self._low[version + 1] if version + 1 < len(self._low) else self._gone_after
        return self._high[version] < call.invoked and until > _end(call) and not self._may_be_passed(version)

    def _may_be_passed(self, version: int) -> bool:
        """Whether a write that no client saw may have followed."""
        return version + 1 >= len(self._low) and any(
            call.operation == "write" and call.expected == version and call.outcome is CallOutcome.UNKNOWN
            for call in self._calls
        )


def _may_share_a_version(first: RegisterCall, call: RegisterCall) -> bool:
    """A read shares it; and a create may find what an earlier try of the same caller made."""
    operations = (first.operation, call.operation)
    return "read" in operations or (operations == ("create", "create") and first.client == call.client)


def _end(call: RegisterCall) -> float:
    return inf if call.returned is None else call.returned


def _describe(call: RegisterCall | None) -> str:
    if call is None:
        return "seen by no client"
    return (
        f"{call.operation} of {call.client} at {call.invoked}..{call.returned or ''} "
        f"({call.outcome.value}, expected {call.expected}, version {call.version})"
    )
