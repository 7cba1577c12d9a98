"""What one more client does after the chaos: it takes the log over, appends, reads all of it, audits every copy."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from dlog.client import LogClient
from dlog.inspection.ledgers import listed_ledgers
from dlog.model import ListedLedger, MessageId
from dlog.testing.checks.copies import audit
from dlog.testing.checks.history import History, Outcome, content_of
from dlog.testing.checks.recorder import Recorder
from dlog.testing.checks.seal_facts import seals_and_times
from dlog.testing.cluster import SimulatedCluster
from dlog.testing.swarm.deletion import read_while_deleted
from dlog.testing.swarm.garbage import garbage_is_deleted
from dlog.testing.swarm.plan import Plan
from dlog.testing.swarm.processes.administrators import OTHER_LOG
from dlog.testing.swarm.processes.writers import outcome_of
from ledger.errors import LogStoreError, OutcomeUnknownError, OwnershipLostError, UnavailableError
from ledger.model import LedgerId

T = TypeVar("T")
Connect = Callable[[], Coroutine[Any, Any, LogClient]]
BEYOND_S_MAX = 60.0
"""Beyond the contract nothing is promised but errors: after so long without an answer it is one."""
_TRY_AGAIN_S = 0.5
_FOLLOW_S = 10.0
"""Far more than `lac_interval_s`, for slow disks and connections that are made anew."""


class InTime(Protocol):
    """Waits for one phase of the run, and fails it if it takes too long."""

    async def __call__(self, what: str, work: Coroutine[Any, Any, T]) -> T: ...


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
        in_time: InTime,
        readers_reach: Callable[[MessageId], Coroutine[Any, Any, None]],
    ) -> None:
        self._plan = plan
        self._cluster = cluster
        self._log = log
        self._recorder = recorder
        self._connect = connect
        self._wrong = wrong
        self._in_time = in_time
        self._readers_reach = readers_reach

    async def within_the_contract(self) -> History:
        """Every step is tried until it succeeds. The history that is returned has been read to its end."""
        in_time = self._in_time
        client = await in_time("the verifier connects", self._connect())
        try:
            await in_time("bookies serve again", self._bookies_are_back(client))
            last_id = await in_time("the log is taken over and written", self._append_last(client))
            history = self._recorder.history()
            history.strict = not self._plan.fast
            listed = await in_time("the log is read", self._read_all(client, history))
            if not history.final or history.final[-1][0] != last_id:
                self._wrong.append(
                    f"c17_progress: the log ends with {history.final[-1:]}, expected {last_id}"
                )
            await in_time("every reader reaches the end of the log", self._readers_reach(last_id))
            ledger_ids = [each.ledger_id for each in listed]
            await in_time("bookies start anew", self._restart_some())
            self._wrong += await in_time("every copy is audited", self._audit(client, ledger_ids))
            self._wrong += await in_time("seals are compared with entries", self._compare(client, listed))
            if self._plan.waits_for_garbage:
                collected = garbage_is_deleted(client, self._cluster, (self._log, OTHER_LOG))
                await in_time("garbage is deleted", collected)
            if self._plan.other_log:
                read = read_while_deleted(client, OTHER_LOG)
                self._wrong += await in_time("a log is read while it is deleted", read)
            return history
        finally:
            await client.close()

    async def beyond_the_contract(self) -> History:
        """C18: each step succeeds or says that it does not; whatever is read is right."""
        client = await self._connect()
        try:
            async with asyncio.timeout(BEYOND_S_MAX):
                await self._append_last(client)
                history = self._recorder.history()
                await self._read_all(client, history)
        except (TimeoutError, LogStoreError) as error:
            self._cluster.trace.note("beyond", "verifier", type(error).__name__)
            history = self._recorder.history()
            history.complete = False
            seen = {each.message_id: each.payload for _, found in history.observed() for each in found}
            history.final = sorted(seen.items())
        finally:
            await client.close()
        history.strict = not self._plan.fast
        return history

    async def _bookies_are_back(self, client: LogClient) -> None:
        """C17: whatever befell them, all of them serve and take writes again, but for those that are lost.

        Where bookies may start in limbo, those with sectors that cannot be read serve, too.
        """
        sound = [bookie for bookie in self._cluster.bookies if bookie.sound]
        for bookie in self._cluster.bookies:
            in_limbo = self._plan.limbo and not bookie.lost and not bookie.may_refuse_to_start
            if bookie.sound or in_limbo:
                await bookie.wait_until_serving()
        back = {bookie.bookie_id for bookie in sound}
        while not back <= {info.bookie_id for info in client.ledgers.bookies().writable}:  # noqa: ASYNC110 - as below
            await asyncio.sleep(_TRY_AGAIN_S)

    async def _restart_some(self) -> None:
        """What the audit reads then comes from the journal, the index and the entry logs, not from memory."""
        chance = self._cluster.loop.seeds.stream("verification")
        for bookie in self._cluster.bookies:
            way = chance.choice(("stop", "kill", "leave"))
            if not bookie.sound or way == "leave":
                continue
            if way == "stop":
                await bookie.stop()
            else:
                bookie.kill()
            bookie.start()
            await bookie.wait_until_serving()

    async def _append_last(self, client: LogClient) -> MessageId:
        """A message like any other: the history has it, and the takeover."""
        for term in itertools.count(1):
            handle = f"verifier.{term}"
            self._recorder.asked_for(handle)
            try:
                async with client.open_writer(self._log, create=True) as writer:
                    self._recorder.takeover(handle, writer.epoch)
                    payload = b"healed %d" % term
                    number = self._recorder.invoke(handle, payload)
                    outcome, message_id = await outcome_of(writer.append(payload))
                    self._recorder.end(handle, number, outcome, message_id)
                    if outcome is Outcome.ACKED and message_id is not None:
                        if self._plan.fast and self._plan.profile != "beyond":
                            await self._readers_follow(client, message_id)
                        return message_id
            except (UnavailableError, OutcomeUnknownError, OwnershipLostError):
                pass
            await asyncio.sleep(_TRY_AGAIN_S)
        raise AssertionError("unreachable")

    async def _readers_follow(self, client: LogClient, message_id: MessageId) -> None:
        """With fast visibility, and while the writer is idle (docs/log-semantics.md#rule-13)."""
        ends_at = asyncio.get_running_loop().time() + _FOLLOW_S
        while asyncio.get_running_loop().time() < ends_at:
            with suppress(UnavailableError):
                async with client.reader(self._log, message_id, until="latest") as reader:
                    if [message.id async for message in reader]:
                        return
            await asyncio.sleep(client.config.ledger.lac_interval_s)
        self._wrong.append(
            f"c9_readers_follow_an_idle_writer: {message_id} was acknowledged {_FOLLOW_S} s ago, and a reader that "
            "opens now does not see it"
        )

    async def _read_all(self, client: LogClient, history: History) -> list[ListedLedger]:
        """Read the log; its ledgers as they were before and after. A trim may still come in between."""
        while True:
            try:
                record = (await client.describe(self._log)).record
                listed = await listed_ledgers(client, self._log)
                reader = client.reader(
                    self._log, until="latest", on_trimmed="skip", config=self._plan.reader_config()
                )
                async with reader:
                    history.final = []
                    async for message in reader:
                        content = content_of(message.payload, message.key, message.headers)
                        history.final.append((message.id, content))
                        history.times_us[message.id] = message.append_time_us
                history.trimmed_before = record.trim_before
                if (await client.describe(self._log)).record.trim_before == record.trim_before:
                    return listed
            except UnavailableError:
                await asyncio.sleep(_TRY_AGAIN_S)

    async def _compare(self, client: LogClient, listed: list[ListedLedger]) -> list[str]:
        while True:
            try:
                record = (await client.describe(self._log)).record
                return await seals_and_times(client.ledgers, listed, record.pages)
            except UnavailableError:
                await asyncio.sleep(_TRY_AGAIN_S)

    async def _audit(self, client: LogClient, ledger_ids: list[LedgerId]) -> list[str]:
        while True:
            try:
                return await audit(client.ledgers, ledger_ids, self._cluster.bookies)
            except UnavailableError:
                await asyncio.sleep(_TRY_AGAIN_S)
