"""What one more client does after the chaos: it takes the log over, appends, reads all of it, audits every copy."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from dlog.client import LogClient
from dlog.testing.checks.copies import audit
from dlog.testing.checks.history import History
from dlog.testing.checks.recorder import Recorder
from dlog.testing.cluster import SimulatedCluster
from dlog.testing.swarm.garbage import garbage_is_deleted
from dlog.testing.swarm.plan import Plan
from dlog.testing.swarm.processes.administrators import OTHER_LOG
from ledger.errors import LogStoreError, OutcomeUnknownError, OwnershipLostError, UnavailableError
from ledger.model import LedgerId

Connect = Callable[[], Awaitable[LogClient]]
HEALED = b"healed"
BEYOND_S_MAX = 60.0
"""Beyond the contract nothing is promised but errors: after so long without an answer it is one."""
_TRY_AGAIN_S = 0.5


class Verification:
    """One client and its work. It adds violations to `wrong`."""

    def __init__(
        self,
        plan: Plan,
        cluster: SimulatedCluster,
        log: str,
        recorder: Recorder,
        connect: Connect,
        wrong: list[str],
    ) -> None:
        self._plan = plan
        self._cluster = cluster
        self._log = log
        self._recorder = recorder
        self._connect = connect
        self._wrong = wrong

    async def within_the_contract(self) -> History:
        """Every step is tried until it succeeds. The history that is returned has been read to its end."""
        client = await self._connect()
        try:
            await self._bookies_are_back(client)
            last_id = await self._append_last(client)
            history = self._recorder.history()
            history.final = await self._read_all(client)
            if not history.final or history.final[-1] != (last_id, HEALED):
                self._wrong.append(
                    f"c17_progress: the log ends with {history.final[-1:]}, expected {last_id}"
                )
            await self._readers_reach(last_id)
            record = (await client.describe(self._log)).record
            history.trimmed_before = record.trim_before
            history.strict = not self._plan.fast
            self._wrong += await self._audit(client, [listed.ledger_id for listed in record.ledgers])
            if self._plan.waits_for_garbage:
                await garbage_is_deleted(client, self._cluster, (self._log, OTHER_LOG))
            return history
        finally:
            await client.close()

    async def beyond_the_contract(self) -> History:
        """C18: each step succeeds or says that it does not; whatever is read is right."""
        client = await self._connect()
        history = self._recorder.history()
        history.strict = not self._plan.fast
        try:
            async with asyncio.timeout(BEYOND_S_MAX):
                await self._append_last(client)
                history.trimmed_before = (await client.describe(self._log)).record.trim_before
                history.final = await self._read_all(client)
        except (TimeoutError, LogStoreError) as error:
            self._cluster.trace.note("beyond", "verifier", type(error).__name__)
            history.complete = False
            history.final = sorted(
                {
                    seen.message_id: seen.payload
                    for observations in history.readers.values()
                    for seen in observations
                }.items()
            )
        finally:
            await client.close()
        return history

    async def _bookies_are_back(self, client: LogClient) -> None:
        """C17: whatever befell them, all of them serve and take writes again, but for those that are lost."""
        sound = [bookie for bookie in self._cluster.bookies if bookie.sound]
        for bookie in sound:
            await bookie.wait_until_serving()
        back = {bookie.bookie_id for bookie in sound}
        while not back <= {info.bookie_id for info in client.ledgers.bookies().writable}:  # noqa: ASYNC110 - as below
            await asyncio.sleep(_TRY_AGAIN_S)

    async def _append_last(self, client: LogClient) -> Any:
        while True:
            try:
                async with client.open_writer(self._log, create=True) as writer:
                    return await writer.append(HEALED)
            except (UnavailableError, OutcomeUnknownError, OwnershipLostError):
                await asyncio.sleep(_TRY_AGAIN_S)

    async def _read_all(self, client: LogClient) -> list[Any]:
        while True:
            try:
                reader = client.reader(
                    self._log, until="latest", on_trimmed="skip", config=self._plan.reader_config()
                )
                async with reader:
                    return [(message.id, message.payload or b"") async for message in reader]
            except UnavailableError:
                await asyncio.sleep(_TRY_AGAIN_S)

    async def _readers_reach(self, message_id: Any) -> None:
        """C17: those that were there all the time come to the end too."""
        while self._recorder.highest < message_id:  # noqa: ASYNC110 - in no hurry
            await asyncio.sleep(_TRY_AGAIN_S)

    async def _audit(self, client: LogClient, ledger_ids: list[LedgerId]) -> list[str]:
        while True:
            try:
                return await audit(client.ledgers, ledger_ids, self._cluster.bookies)
            except UnavailableError:
                await asyncio.sleep(_TRY_AGAIN_S)


def forget_last_append(history: History) -> None:
    """Remove the verification's own message, which no writer of the history appended."""
    history.final = [each for each in history.final if each[1] != HEALED]
    for observations in history.readers.values():
        observations[:] = [seen for seen in observations if seen.payload != HEALED]
