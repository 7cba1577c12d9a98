"""What bookies know of a ledger's last add confirmed, read with READ_LAC and verified.

Two questions with two prices (log semantics, rule 14). Whether *no* confirmed entry is missed takes answers that
cover every write set. Whether the LAC is *at least* so much takes one verified answer: a writer, and nobody else,
seals a LAC into an entry or a packet, and only once everything up to it is confirmed. What a bookie merely claims,
as the `max_lac` of a long poll, proves neither.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from ledger.core.lac import LacCollector
from ledger.errors import (
    BookieUnavailableError,
    DigestMismatchError,
    LogStoreError,
    ReadError,
    UnauthorizedError,
)
from ledger.model import NO_ENTRY, BookieId, EntryId, LedgerId, LedgerMetadata
from ledger.services import Services
from ledger.wire.digest import Digester
from ledger.wire.messages import ReadLacResponse
from ledger.wire.status import Status

_PROVES_NO_LAC = (Status.EOK, Status.ENOENTRY, Status.ENOLEDGER)

_Answers = asyncio.Queue[tuple[int, int | LogStoreError]]


class LacReader:
    def __init__(self, ledger_id: LedgerId, services: Services, digester: Digester) -> None:
        self._ledger_id = ledger_id
        self._services = services
        self._digester = digester

    async def covering(self, metadata: LedgerMetadata) -> EntryId:
        """No confirmed entry lies above it, as of the call. ReadError if too few bookies answer."""
        collector = LacCollector(metadata)
        answers: _Answers = asyncio.Queue()
        tasks = [
            _spawn(self._put(position, bookie_id, answers))
            for position, bookie_id in enumerate(metadata.last_fragment.ensemble)
        ]
        reasons: list[str] = []
        try:
            while not collector.covered:
                if collector.exhausted:
                    raise ReadError(
                        f"the last add confirmed of ledger {self._ledger_id} is unknown: too few of its bookies "
                        f"answer ({'; '.join(reasons)}); start them and try again",
                        ledger_id=self._ledger_id,
                    )
                position, lac = await answers.get()
                if isinstance(lac, int):
                    collector.on_answer(position, lac)
                else:
                    collector.on_failure(position)
                    reasons.append(str(lac))
        finally:
            for task in tasks:
                task.cancel()
        return collector.lac

    async def proved_by(self, bookie_id: BookieId) -> int:
        """Everything up to it is confirmed, as this bookie can show; -1 if it shows nothing, or not quickly."""
        try:
            async with asyncio.timeout(self._services.config.speculative_read_s):
                return await self._read(bookie_id)
        except (BookieUnavailableError, DigestMismatchError, UnauthorizedError, TimeoutError):
            return NO_ENTRY

    async def _put(self, position: int, bookie_id: BookieId, answers: _Answers) -> None:
        try:
            async with asyncio.timeout(self._services.config.read_timeout_s):
                lac = await self._read(bookie_id)
        except (BookieUnavailableError, DigestMismatchError, UnauthorizedError) as error:
            answers.put_nowait((position, error))
        except TimeoutError:
            late = BookieUnavailableError(f"bookie {bookie_id} did not answer in time", bookie_id=bookie_id)
            answers.put_nowait((position, late))
        else:
            answers.put_nowait((position, lac))

    async def _read(self, bookie_id: BookieId) -> int:
        """The highest LAC that the bookie can show, -1 if it has proved that it holds none.

        BookieUnavailableError if nothing follows from its answer. DigestMismatchError if a part is damaged, which
        may have held the highest.
        """
        connection = await self._services.pool.v3(bookie_id)
        answer = await connection.read_lac(self._ledger_id, self._services.config.read_timeout_s)
        if answer is None:
            raise BookieUnavailableError(
                f"bookie {bookie_id} answered without a body to a read of the LAC", bookie_id=bookie_id
            )
        return self._verified(bookie_id, answer)

    def _verified(self, bookie_id: BookieId, answer: ReadLacResponse) -> int:
        lac = -1
        if answer.lac_packet is not None:
            lac = self._digester.verify_lac_packet(self._ledger_id, answer.lac_packet)
        elif answer.status not in _PROVES_NO_LAC:
            raise BookieUnavailableError(
                f"bookie {bookie_id} answered {answer.status.name} to a read of the LAC", bookie_id=bookie_id
            )
        if answer.last_entry is not None:
            lac = max(lac, self._digester.verify(answer.last_entry, self._ledger_id, None).lac)
        return lac


def _spawn(coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    task = asyncio.get_running_loop().create_task(coroutine)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task
