"""What administrators do in a run: shrink, retain, rotate, sweep, collect; and a second log that comes and goes."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random

from dlog.client import LogClient
from dlog.errors import (
    LogExistsError,
    LogNotFoundError,
    LogSealedError,
    ShrinkRefusedError,
    UnknownPositionError,
)
from dlog.model import MessageId, Retention
from dlog.testing.checks.history import content_of
from dlog.testing.checks.recorder import Recorder
from dlog.testing.swarm.processes.cut_short import CutShortError, cut_short
from dlog.write.writer import LogWriter
from ledger.errors import LogStoreError, OutcomeUnknownError, OwnershipLostError, UnavailableError

OTHER_LOG = "other"
RETAINED = "retained"
_SWEEP_AGE_S = 0.5
_SHADOW_S = 5.0
"""For reading what is to be trimmed; if that takes longer, nothing is trimmed this time."""


class SwarmAdministrator:
    """One process. Each of its calls may fail, none may lose data."""

    def __init__(
        self,
        client: LogClient,
        log: str,
        recorder: Recorder,
        name: str,
        chance: Random,
        *,
        shrinks: bool,
        other_log: bool,
        strict: bool,
        cancels: bool = False,
        rotates: bool = False,
        retains: bool = False,
    ) -> None:
        """`cancels`: some of what it does is cancelled at any instant. `retains`: it also trims through the owner."""
        self._cancels = cancels
        self._rotates = rotates
        self._retains = retains
        self._client = client
        self._log = log
        self._recorder = recorder
        self._name = name
        self._chance = chance
        self._shrinks = shrinks
        self._other_log = other_log
        self._strict = strict
        self._generation = 0
        self.wrong: list[str] = []
        """What must not happen and did."""
        self.loud: list[str] = []
        """Errors that only a fault beyond the contract excuses."""

    async def run(self) -> None:
        works = [self._look, self._clean]
        works += [self._shrink] if self._shrinks else []
        works += [self._live_another_life] * 2 if self._other_log else []
        works += [self._rotate] if self._rotates else []
        works += [self._retain] if self._retains else []
        while True:
            await asyncio.sleep(4.0 * self._chance.random())
            try:
                work = self._chance.choice(works)()
                await (cut_short(work, self._chance, share=0.3) if self._cancels else work)
            except (
                CutShortError,
                UnavailableError,
                OutcomeUnknownError,
                OwnershipLostError,
                LogNotFoundError,
                LogSealedError,
                LogExistsError,
                ShrinkRefusedError,
            ):
                continue
            except LogStoreError as error:
                self.loud.append(f"{self._name}: {error!r}")

    async def _look(self) -> None:
        await self._client.list()
        await self._client.describe(self._log)

    async def _clean(self) -> None:
        await self._client.collect(self._log)
        await self._client.admin.sweep(age_s=_SWEEP_AGE_S)

    async def _rotate(self) -> None:
        await self._client.rotate(self._log, force=self._chance.random() < 0.2)

    async def _retain(self) -> None:
        """The owner trims up to a cursor at its next rotation, if at all."""
        before = self._older()
        if before is not None and await self._announced(before) is not None:
            acked = self._recorder.last_acked
            try:
                await self._client.set_cursor(self._log, RETAINED, before)
            except UnknownPositionError:
                if self._strict and before <= acked:
                    raise
                return  # it was shown to a reader by a bookie that does not respond now
            await self._client.set_retention(self._log, Retention(keep_unread=True))

    async def _shrink(self) -> None:
        seen = self._recorder.seen
        before = seen[-1] if seen and self._chance.random() < 0.1 else self._older()
        number = None if before is None else await self._announced(before)
        if before is not None and number is not None:
            await self._client.shrink(self._log, before)
            self._recorder.trimmed(number)

    def _older(self) -> MessageId | None:
        """Somewhere in the older half: the younger one is to be checked."""
        seen = self._recorder.seen
        return seen[self._chance.randrange(len(seen) // 2 + 1)] if seen else None

    async def _announced(self, before: MessageId) -> int | None:
        """Read what is to be trimmed first, so that the checks know it; what cannot be read now is left alone."""
        try:
            async with asyncio.timeout(_SHADOW_S):
                shadow = await self._shadow(self._recorder.shadowed, before)
        except TimeoutError:
            return None
        return self._recorder.trim(before, shadow)

    async def _shadow(self, start: MessageId, before: MessageId) -> list[tuple[MessageId, bytes]]:
        """What is not yet in the shadow of an earlier trim."""
        if start >= before:
            return []
        found = []
        async with self._client.reader(self._log, start, until=before) as messages:
            async for message in messages:
                found.append((message.id, content_of(message.payload, message.key, message.headers)))
        return found

    async def _live_another_life(self) -> None:
        """Create, write, perhaps seal, read, delete; nothing of an earlier life may be seen in a later one."""
        self._generation += 1
        sent = [b"%s life %d: %d" % (self._name.encode(), self._generation, n) for n in range(5)]
        if self._chance.random() < 0.5:
            with suppress(LogNotFoundError):
                await self._client.delete(OTHER_LOG)
        writer = await self._client.open_writer(OTHER_LOG, create=True)
        for payload in sent:
            await writer.append(payload)
        if self._chance.random() < 0.5:
            await writer.close()
        if self._chance.random() < 0.5:
            await self._client.seal(OTHER_LOG)
            await self._append_in_vain(writer, "sealed")
        found = [message.payload async for message in self._client.reader(OTHER_LOG, until="latest")]
        if self._strict and found[-len(sent) :] != sent:
            self.wrong.append(f"{self._name}: the other log ends with {found[-len(sent) :]}, not {sent}")
        deleted = await self._client.delete(OTHER_LOG)
        await self._append_in_vain(writer, "deleted")
        if deleted:
            await self._client.create(OTHER_LOG)
            left = [message.payload async for message in self._client.reader(OTHER_LOG, until="latest")]
            if left:
                self.wrong.append(f"{self._name}: a log just created holds {left}")

    async def _append_in_vain(self, writer: LogWriter, what: str) -> None:
        """To seal or delete a log is to take it over: its writer is never acknowledged again."""
        try:
            message_id = await writer.append(b"too late")
        except LogStoreError:
            return
        self.wrong.append(
            f"c6_real_time_order: {self._name}: {message_id} was acknowledged in a log {what} before"
        )
