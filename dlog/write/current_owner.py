"""Asking the owner of a log for something, and waiting for it, without taking the log over.

Nothing here is needed for safety: a takeover fences whatever the owner does (docs/log-semantics.md#rule-20,
#rule-22b). An owner that does not answer within `owner_answer_s` counts as stopped, which may be wrong.
"""

from __future__ import annotations

import asyncio
import logging
import math
from dataclasses import dataclass

from dlog.backoff import Backoff
from dlog.config import LogConfig
from dlog.core.takeover import describe_owner
from dlog.errors import OwnerUnresponsiveError, RotationFailedError, TakeoverLostError
from dlog.metadata.log_ref import LogRef
from dlog.metadata.store import LogMetadataStore
from dlog.model import LogMetadata, LogState, Owner, OwnerRequest, RequestKind, RequestState
from ledger.environment import Environment
from ledger.errors import LogStoreError, OutcomeUnknownError, UnavailableError

_log = logging.getLogger(__name__)

_POLL_FIRST_S = 0.005
_WITHDRAWAL_S = 1.0
"""A cancelled call is held up by no more. Usually it takes a round trip or two to the metadata store."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """A state of the log in which the client still waits: the record, and the newest request."""

    record: LogMetadata
    request: OwnerRequest


class CurrentOwner:
    """The owner that a log has when the first method is called. One use."""

    def __init__(
        self,
        ref: LogRef,
        requester: Owner,
        *,
        logs: LogMetadataStore,
        config: LogConfig,
        environment: Environment,
    ) -> None:
        self._ref = ref
        self._requester = requester
        self._logs = logs
        self._answer_s = config.owner_answer_s
        self._environment = environment
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._open_since: tuple[int, float] = (0, 0.0)
        """The open request that was seen last, by its nonce, and when it was first seen."""
        self._shown = 0
        """The nonce of the request for which the record was touched last, so that the owner sees it."""

    async def ended(self, *, hand_over: bool, limit_s: float) -> int:
        """Wait until the owner has ended and every ledger is sealed, or does not answer, or `limit_s` has passed.

        `hand_over`: ask it to end. Returns the log's epoch: while it is in that one it may be taken over, whatever the
        outcome. If cancelled, what was asked is withdrawn, so that the owner does not end for a client that has left.

        Raises:
            TakeoverLostError: another client took the log over.
            LogNotFoundError: the log was deleted.
            MetadataUnavailableError: the metadata store cannot be reached at the beginning.
        """
        first = (await self._logs.read(self._ref)).value
        if is_released(first):
            return first.epoch
        kind = RequestKind.HAND_OVER if hand_over else RequestKind.ANSWER
        unwatch = self._logs.watch(self._ref, self._changed.set)
        try:
            async with asyncio.timeout(None if limit_s == math.inf else limit_s):
                await self._wait_for_end(first, kind)
        except TimeoutError:
            _log.warning(
                "log %s: %s did not end within %g s; fencing it",
                self._ref,
                describe_owner(first.owner),
                limit_s,
            )
        except asyncio.CancelledError:
            await self._withdraw(first)
            raise
        finally:
            unwatch()
        return first.epoch

    async def _withdraw(self, first: LogMetadata) -> None:
        try:
            async with asyncio.timeout(_WITHDRAWAL_S):
                request = await self._logs.requests.read(self._ref)
                if (
                    request is not None
                    and request.requester == self._requester
                    and request.state is RequestState.OPEN
                ):
                    await self._logs.requests.answer(
                        self._ref, request, RequestState.FAILED, "the client gave up"
                    )
        except (LogStoreError, TimeoutError) as error:
            _log.warning(
                "log %s: what was asked of %s could not be withdrawn, and may still be done: %s",
                self._ref,
                describe_owner(first.owner),
                error or "the metadata store did not answer",
            )

    async def _wait_for_end(self, first: LogMetadata, kind: RequestKind) -> None:
        """While the metadata store cannot be reached, no owner could answer, and no log can be taken over."""
        asked_at: float | None = None
        backoff = self._backoff()
        while True:
            self._changed.clear()
            try:
                seen = await self._look(first, kind, ask=asked_at is None)
            except (UnavailableError, OutcomeUnknownError):
                self._open_since = (0, 0.0)
                asked_at = None
                await self._pause(backoff)
                continue
            now = self._loop.time()
            if is_released(seen.record):
                return
            if seen.record.epoch != first.epoch:
                raise _lost(self._ref, seen.record)
            if self._unanswered(seen.request, now):
                _log.warning(
                    "log %s: %s did not answer within %g s; fencing it",
                    self._ref,
                    describe_owner(first.owner),
                    self._answer_s,
                )
                return
            if asked_at is None and seen.request.requester == self._requester:
                asked_at = now
            elif asked_at is not None and now - asked_at > self._answer_s:
                asked_at = None  # whether the owner still runs
            await self._pause(backoff)

    async def rotated(self, limit_s: float) -> None:
        """Ask the owner to rotate and wait until it has; return immediately if every ledger is sealed.

        Raises:
            OwnerUnresponsiveError: it does not answer, or has not rotated within `limit_s` seconds.
            RotationFailedError: it cannot rotate now.
            LogNotFoundError: the log was deleted.
            MetadataUnavailableError: the metadata store cannot be reached.
        """
        first = (await self._logs.read(self._ref)).value
        if is_released(first):
            return
        unwatch = self._logs.watch(self._ref, self._changed.set)
        try:
            async with asyncio.timeout(limit_s):
                await self._wait_for_rotation(first)
        except TimeoutError:
            raise self._unresponsive(first.owner, f"has not rotated it within {limit_s:g} s") from None
        finally:
            unwatch()

    async def _wait_for_rotation(self, first: LogMetadata) -> None:
        asks = True
        backoff = self._backoff()
        while True:
            self._changed.clear()
            seen = await self._look(first, RequestKind.ROTATE, ask=asks)
            record, request = seen.record, seen.request
            if record.epoch != first.epoch or is_released(record):
                return  # taken over, or closed: its ledger is sealed
            asks = request.kind is not RequestKind.ROTATE and request.state is not RequestState.OPEN
            if request.kind is RequestKind.ROTATE and request.state is RequestState.FAILED:
                raise RotationFailedError(
                    f"{describe_owner(first.owner)} could not rotate log {self._ref}: {request.reason}",
                    log=str(self._ref),
                    owner=first.owner,
                )
            if request.kind is RequestKind.ROTATE and request.state is RequestState.DONE:
                # Another client's may have been done for a ledger that was empty then.
                if request.requester == self._requester or record.ledger_ids[-1:] != first.ledger_ids[-1:]:
                    return
                asks = True
            if self._unanswered(request, self._loop.time()):
                raise self._unresponsive(first.owner, f"has not answered within {self._answer_s:g} s")
            await self._pause(backoff)

    # ---- parts

    async def _look(self, first: LogMetadata, kind: RequestKind, *, ask: bool) -> _Seen:
        """The request first: what is done before it is answered is then in the record."""
        request = None if ask else await self._logs.requests.read(self._ref)
        if request is None or request.epoch != first.epoch:
            request = await self._ask(first, kind)
        return _Seen((await self._logs.read(self._ref)).value, request)

    async def _ask(self, first: LogMetadata, kind: RequestKind) -> OwnerRequest:
        new = OwnerRequest(
            kind=kind, epoch=first.epoch, nonce=self._environment.token(), requester=self._requester
        )
        there = await self._logs.requests.ask(self._ref, new)
        if (
            there.nonce != self._shown
        ):  # each touch wakes all who wait, and another client's request may stay open
            await self._logs.touch(self._ref)
            self._shown = there.nonce
        return there

    def _unanswered(self, request: OwnerRequest, now: float) -> bool:
        if request.state is not RequestState.OPEN:
            return False
        nonce, since = self._open_since
        if nonce != request.nonce:
            self._open_since = request.nonce, now
            return False
        return now - since > self._answer_s

    async def _pause(self, backoff: Backoff) -> None:
        try:
            async with asyncio.timeout(backoff.next_s()):
                await self._changed.wait()
        except TimeoutError:
            return

    def _backoff(self) -> Backoff:
        return Backoff(self._environment, first_s=_POLL_FIRST_S, max_s=self._answer_s / 4)

    def _unresponsive(self, owner: Owner | None, what: str) -> OwnerUnresponsiveError:
        return OwnerUnresponsiveError(
            f"{describe_owner(owner)}, the owner of log {self._ref}, {what}; if it has stopped, fence it with "
            "`dlog rotate --force`",
            log=str(self._ref),
            owner=owner,
        )


def is_released(record: LogMetadata) -> bool:
    """Whether the record shows that nothing is appended: its owner has ended properly, or there is none."""
    return record.state is not LogState.ACTIVE or all(one.seal is not None for one in record.ledgers)


def _lost(ref: LogRef, record: LogMetadata) -> TakeoverLostError:
    return TakeoverLostError(
        f"log {ref} was taken over by {describe_owner(record.owner)} in epoch {record.epoch} while its earlier owner "
        "was waited for; open it again to wait for the new one",
        log=str(ref),
        epoch=record.epoch,
        owner=record.owner,
    )
