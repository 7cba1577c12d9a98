"""What other clients ask of a writer: read after each change of the log's record, and now and then; answered.

Invariant (docs/log-semantics.md#rule-22b): a request is answered before it is executed, so that the client that waits
knows that this writer runs, and only if it is for this epoch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dlog.metadata.log_ref import LogRef
from dlog.metadata.owner_requests import OwnerRequests
from dlog.model import LogMetadata, Owner, OwnerRequest, RequestKind, RequestState
from dlog.write.task_scope import TaskScope
from ledger.errors import LogStoreError, OutcomeUnknownError, UnavailableError
from ledger.model import LedgerId, Versioned

CHECK_S_MIN = 30.0
"""Between two reads that no change of the record has brought about."""


class OwnerInbox:
    """The requests to one writer, one after the other."""

    def __init__(
        self,
        requests: OwnerRequests,
        ref: LogRef,
        tasks: TaskScope,
        pause_s: Callable[[int], float],
        on_rotate: Callable[[], asyncio.Future[LedgerId]],
        on_hand_over: Callable[[Owner], None],
    ) -> None:
        self._requests = requests
        self._ref = ref
        self._tasks = tasks
        self._pause_s = pause_s
        self._on_rotate = on_rotate
        self._on_hand_over = on_hand_over
        self._seen: Versioned[LogMetadata] | None = None
        self._reading = False
        self._read_again = False
        self._answering: int | None = None
        """The nonce of the request whose answer may be stored although this writer does not know that yet."""
        self._loop = asyncio.get_running_loop()
        self._read_at = self._loop.time()

    def on_record(self, read: Versioned[LogMetadata]) -> None:
        """The record, of the writer's own epoch: if it was changed, perhaps because there is a request."""
        if self._seen is not None and self._seen.version == read.version:
            return
        self._seen = read
        self._start()

    def on_check(self) -> None:
        """The writer checks its ledger: a client may have died between asking and changing the record."""
        if self._seen is not None and self._loop.time() - self._read_at >= CHECK_S_MIN:
            self._start()

    def _start(self) -> None:
        self._read_again = True
        if not self._reading:
            self._reading = True
            self._tasks.spawn(self._run())

    async def _run(self) -> None:
        attempt = 0
        while self._read_again:
            self._read_again = False
            try:
                await self._look()
            except (UnavailableError, OutcomeUnknownError):
                attempt += 1
                self._read_again = True
                await asyncio.sleep(self._pause_s(attempt))
            else:
                attempt = 0
        self._reading = False

    async def _look(self) -> None:
        assert self._seen is not None
        self._read_at = self._loop.time()
        epoch = self._seen.value.epoch
        request = await self._requests.read(self._ref)
        if request is None or request.epoch != epoch or not self._is_new(request):
            return
        self._answering = request.nonce
        is_answered = await self._requests.answer(self._ref, request, RequestState.SEEN)
        self._answering = None
        if not is_answered:
            self._read_again = True
            return
        match request.kind:
            case RequestKind.ROTATE:
                self._tasks.spawn(self._rotate(request))
            case RequestKind.HAND_OVER:
                self._on_hand_over(request.requester)
            case RequestKind.ANSWER:
                pass

    def _is_new(self, request: OwnerRequest) -> bool:
        """Whether it is still to be executed: one whose answer was stored, but lost on its way here, is."""
        in_doubt = request.state is RequestState.SEEN and request.nonce == self._answering
        return request.state is RequestState.OPEN or in_doubt

    async def _rotate(self, request: OwnerRequest) -> None:
        try:
            await self._on_rotate()
        except LogStoreError as error:
            await self._report(request, RequestState.FAILED, str(error))
        else:
            await self._report(request, RequestState.DONE)

    async def _report(self, request: OwnerRequest, state: RequestState, reason: str = "") -> None:
        """However long it takes."""
        attempt = 0
        while True:
            try:
                await self._requests.answer(self._ref, request, state, reason)
            except (UnavailableError, OutcomeUnknownError):
                attempt += 1
                await asyncio.sleep(self._pause_s(attempt))
            else:
                return
