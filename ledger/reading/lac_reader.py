"""What bookies know of a ledger's last add confirmed, read with READ_LAC and verified.

Two questions with two prices (docs/log-semantics.md#rule-14). Whether *no* confirmed entry is missed takes answers
that cover every write set. Whether the LAC is *at least* some value takes one verified answer: only a writer signs a
LAC into an entry or a packet, and only once everything up to it is confirmed. What a bookie merely claims, as the
`max_lac` of a long poll, proves neither.

Protocol: docs/bookkeeper.md#reading-the-lac, #last-add-confirmed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, assert_never

from ledger.client_context import ClientContext
from ledger.core.lac import LacCollector
from ledger.errors import (
    BookieUnavailableError,
    DigestMismatchError,
    ReadError,
    UnauthorizedError,
)
from ledger.model import NO_ENTRY, BookieId, EntryId, LedgerId, LedgerMetadata
from ledger.reading.bookie_reads import read_entry
from ledger.tasks import start_task
from ledger.transport.v3_connection import V3Connection
from ledger.wire.digest import Digester
from ledger.wire.messages import ReadLacResponse
from ledger.wire.status import Answer, Status

_MAY_LACK_ENTRIES = (Status.EOK, Status.ENOENTRY, Status.ENOLEDGER)
"""What READ_LAC answers without a last entry, whether there is none or it cannot be read. Apache's bookie sends
ENOENTRY in both cases, and EIO with an explicit LAC."""


@dataclass(frozen=True, slots=True)
class _Shown:
    """What one bookie has shown of the LAC."""

    lac: int = NO_ENTRY
    """The highest that is verified; -1 if none is."""
    why_partial: Exception | None = None
    """Why it may have a higher one; None if it has shown or denied all that it could have."""


_Answers = asyncio.Queue[tuple[int, _Shown]]


class LacReader:
    """Reads the LAC of one ledger from its bookies."""

    def __init__(self, ledger_id: LedgerId, context: ClientContext, digester: Digester) -> None:
        self._ledger_id = ledger_id
        self._context = context
        self._digester = digester

    async def covering(self, metadata: LedgerMetadata) -> EntryId:
        """The LAC such that no entry confirmed before the call is above it.

        Raises:
            ReadError: too few bookies answer.
        """
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
                position, shown = await answers.get()
                if shown.why_partial is None:
                    collector.on_answer(position, shown.lac)
                else:
                    collector.on_part(position, shown.lac)
                    reasons.append(str(shown.why_partial))
        finally:
            for task in tasks:
                task.cancel()
        return collector.lac

    async def is_proved(self, entry_id: int, metadata: LedgerMetadata) -> bool:
        """Whether any bookie of the last ensemble proves that the LAC is at least `entry_id`.

        False means only that none does within `read_timeout_s`: what a reader was shown by one bookie may be more than
        `covering` finds, and that bookie may not respond now.
        """
        answers: _Answers = asyncio.Queue()
        tasks = [
            _spawn(self._put(position, bookie_id, answers))
            for position, bookie_id in enumerate(metadata.last_fragment.ensemble)
        ]
        try:
            for _ in tasks:
                _, shown = await answers.get()
                if shown.lac >= entry_id:
                    return True
        finally:
            for task in tasks:
                task.cancel()
        return False

    async def proved_by(self, bookie_id: BookieId) -> int:
        """A LAC that this bookie proves; -1 if it proves none within `speculative_read_s`."""
        try:
            async with asyncio.timeout(self._context.config.speculative_read_s):
                return (await self._read(bookie_id, whole=False)).lac
        except (BookieUnavailableError, UnauthorizedError, TimeoutError):
            return NO_ENTRY

    async def _put(self, position: int, bookie_id: BookieId, answers: _Answers) -> None:
        try:
            async with asyncio.timeout(self._context.config.read_timeout_s):
                shown = await self._read(bookie_id, whole=True)
        except (BookieUnavailableError, UnauthorizedError) as error:
            shown = _Shown(why_partial=error)
        except TimeoutError:
            late = BookieUnavailableError(
                f"bookie {bookie_id} did not respond within {self._context.config.read_timeout_s:g} s",
                bookie_id=bookie_id,
            )
            shown = _Shown(why_partial=late)
        answers.put_nowait((position, shown))

    async def _read(self, bookie_id: BookieId, *, whole: bool) -> _Shown:
        """What the bookie can show. `whole`: where READ_LAC leaves open whether there is a last entry, ask for that.

        Raises:
            BookieUnavailableError: nothing follows from its answer.
        """
        connection = await self._context.pool.v3(bookie_id)
        answer = await connection.read_lac(self._ledger_id, self._context.config.read_timeout_s)
        if answer is None:
            raise BookieUnavailableError(
                f"bookie {bookie_id} answered without a body to a read of the LAC", bookie_id=bookie_id
            )
        lac, damage = self._verified(answer)
        if damage is not None:
            return _Shown(lac, damage)
        if answer.last_entry is not None and answer.status is Status.EOK:
            return _Shown(lac)
        if whole and answer.last_entry is None and _says_all_of_explicit_lac(answer):
            # The header LAC of a last entry that cannot be read may be the highest that any reader would meet.
            return await self._with_last_entry(lac, connection)
        return _Shown(lac, _refused(bookie_id, answer.status))

    async def _with_last_entry(self, lac: int, connection: V3Connection) -> _Shown:
        """Reads by version 3, where no answer can be taken for that of an earlier read of the last entry."""
        timeout_s = self._context.config.read_timeout_s
        last = await read_entry(connection, self._ledger_id, NO_ENTRY, self._digester, timeout_s)
        match last.answer:
            case Answer.YES:
                return _Shown(max(lac, last.entries[0].lac))
            case Answer.PROVED_NO:
                return _Shown(lac)
            case Answer.UNKNOWN:
                return _Shown(lac, last.reason)
            case _:
                assert_never(last.answer)

    def _verified(self, answer: ReadLacResponse) -> tuple[int, DigestMismatchError | None]:
        """The LAC of the intact parts, -1 without any, and the damage: a damaged part does not invalidate the other."""
        lac, damage = int(NO_ENTRY), None
        if answer.lac_packet is not None:
            try:
                lac = self._digester.verify_lac_packet(self._ledger_id, answer.lac_packet)
            except DigestMismatchError as error:
                damage = error
        if answer.last_entry is not None:
            try:
                lac = max(lac, self._digester.verify(answer.last_entry, self._ledger_id, None).lac)
            except DigestMismatchError as error:
                damage = error
        return lac, damage


def _says_all_of_explicit_lac(answer: ReadLacResponse) -> bool:
    """An error without an explicit LAC does not say that there is none: the bookie may have read nothing at all."""
    if answer.status is Status.EIO:
        return answer.lac_packet is not None
    return answer.status in _MAY_LACK_ENTRIES


def _refused(bookie_id: BookieId, status: Status) -> BookieUnavailableError:
    return BookieUnavailableError(
        f"bookie {bookie_id} answered {status.name} to a read of the LAC", bookie_id=bookie_id
    )


def _spawn(coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    task = start_task(coroutine)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task
