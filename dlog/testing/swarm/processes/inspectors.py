"""Inspectors of the swarm: they ask what a log holds and what became of it, while everything else goes on.

Whatever faults strike, no answer contradicts what writers were acknowledged and bookies have promised, and asking
changes nothing, neither in the metadata store nor on a bookie. The log that comes and goes is inspected too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from random import Random
from typing import Any

from dlog.client import LogClient
from dlog.errors import LogNotFoundError, UnknownPositionError
from dlog.inspection.verify import UncheckedLedger
from dlog.model import EARLIEST_ID, ListedLedger, MessageId
from dlog.read.resolution import Resolution
from dlog.testing.checks.checks import first_findings
from dlog.testing.checks.inspections import (
    Certain,
    c24_explanations_agree_with_outcomes,
    c24_histories_are_in_order,
    c24_inspections_change_nothing,
    c24_inspections_leave_nothing_out,
    c24_lists_agree,
    c24_no_sound_copy_is_accused,
    c24_overviews_agree_with_acknowledgements,
)
from dlog.testing.checks.recorder import Recorder
from dlog.testing.cluster import SimulatedCluster
from dlog.testing.network.frames import Said
from dlog.testing.swarm.processes.administrators import OTHER_LOG
from dlog.testing.swarm.processes.cut_short import CutShortError, cut_short
from ledger.errors import LogStoreError, UnavailableError
from ledger.inspection.copies import CopyState, LedgerCopies
from ledger.metadata.transactions.key_value import Node
from ledger.model import BookieId

INSPECTOR = "inspector"
"""How the names of these processes begin."""
_PAUSE_S = 0.3
_FAILED_READS = frozenset(("read_error", "misdirected_read", "no_descriptor"))
_Way = Callable[[str], Coroutine[Any, Any, object]]
_CHANGES = c24_inspections_change_nothing.__name__


class Inspections:
    """What all inspectors of a run share: what was reported of each ledger, and what is certain of the log."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        recorder: Recorder,
        log: str,
        *,
        strict: bool,
        processes: Iterable[str],
    ) -> None:
        """`processes`: by name, those that only inspect: none may change anything. `strict`: as visibility."""
        self.wrong: list[str] = []
        self.listed: dict[str, dict[int, ListedLedger]] = {log: {}, OTHER_LOG: {}}
        """By log and id, as reported first, or with its seal."""
        self.recorder = recorder
        self._cluster = cluster
        self._log = log
        self._strict = strict
        self._processes = frozenset(processes)
        for name in self._processes:
            cluster.network.on_request[name] = partial(self._requested, name)
        cluster.metadata.on_change.append(self._changed)

    def _requested(self, process: str, bookie: str, said: Said) -> None:
        found = (f"{process} to {bookie}: {each}" for each in c24_inspections_change_nothing(said))
        self.wrong += first_findings(_CHANGES, found)

    def _changed(self, node: str, key: str, _value: Node | None) -> None:
        if node in self._processes:
            self.wrong.append(f"{_CHANGES}: {node} changed {key} in the metadata store")

    # ---- what is certain

    def now(self, log: str) -> Callable[[], Certain]:
        """To be called before an inspection; what it returns, at its end."""
        promised = {each.bookie_id: each.promises.acknowledged() for each in self._cluster.bookies}
        ids = [message_id for _, message_id in self.recorder.acknowledged] if log == self._log else []
        ends = {}
        for ledger_id in {each.ledger_id for each in ids} | {*self.listed[log]}:
            metadata = self._cluster.metadata.ledger(ledger_id)
            if metadata is not None and metadata.closed:
                ends[ledger_id] = metadata.last_entry
        acked = [each for each in ids if self._strict or each.ledger_id in ends]

        def certain() -> Certain:
            return Certain(
                acked=acked,
                trimmed_before=self.recorder.shadowed if log == self._log else EARLIEST_ID,
                promised=promised,
                ends=ends,
                is_sound=self._is_sound,
                has_failed_reads=self._has_failed_reads,
            )

        return certain

    def _is_sound(self, bookie_id: BookieId) -> bool:
        return any(each.sound for each in self._cluster.bookies if each.bookie_id == bookie_id)

    def _has_failed_reads(self, bookie_id: BookieId) -> bool:
        return any(
            not _FAILED_READS.isdisjoint(each.disk.faults.noted)
            for each in self._cluster.bookies
            if each.bookie_id == bookie_id
        )

    # ---- after the chaos

    async def wrong_in_the_end(self, client: LogClient) -> list[str]:
        """Each inspection once more, when all bookies serve that can: then each of those answers."""
        inspector = SwarmInspector(client, self._log, self, "inspector-verifier", Random(0), lambda: False)
        for inspect in (inspector.list_ledgers, inspector.history, inspector.overview):
            await inspect(self._log)
        silent = [
            f"c17_progress: {bookie_id} serves, but did not answer verify: {finding.reasons.get(bookie_id)}"
            for each in await inspector.verify(self._log)
            if isinstance(each, LedgerCopies)
            for finding in each.findings
            for bookie_id, state in finding.copies.items()
            if state is CopyState.UNREACHABLE and self._is_sound(bookie_id)
        ]
        for payload, message_id in self.recorder.acknowledged[-3:]:
            await inspector.explain(self._log, message_id, payload)
        return inspector.loud + inspector.wrong + silent[:3] + self.wrong


class SwarmInspector:
    """One process. Its calls may fail for want of bookies or metadata, and some are cancelled."""

    def __init__(
        self,
        client: LogClient,
        log: str,
        inspections: Inspections,
        name: str,
        chance: Random,
        stopping: Callable[[], bool],
        *,
        other_log: bool = False,
    ) -> None:
        self._client = client
        self._log = log
        self._inspections = inspections
        self._recorder = inspections.recorder
        self._name = name
        self._chance = chance
        self._stopping = stopping
        self._other_log = other_log
        self._explained = 0
        self.wrong: list[str] = []
        """What must not happen and did."""
        self.loud: list[str] = []
        """Contradictions and errors that only a fault beyond the contract excuses."""

    async def run(self) -> None:
        """Until the chaos is over; a call that is under way then must end by itself."""
        async with asyncio.TaskGroup() as group:
            for ways in ((self.verify,), (self._explain,), (self.history, self.list_ledgers, self.overview)):
                group.create_task(self._again_and_again(ways), name=f"{self._name} inspects")

    async def _again_and_again(self, ways: Sequence[_Way]) -> None:
        while not self._stopping():
            await asyncio.sleep(self._chance.expovariate(1 / _PAUSE_S))
            log = OTHER_LOG if self._other_log and self._chance.random() < 0.2 else self._log
            await self._ask(self._chance.choice(ways), log)

    async def _ask(self, way: _Way, log: str) -> None:
        acknowledged = bool(self._recorder.acknowledged)
        try:
            await cut_short(way(log), self._chance, share=0.1)
        except (CutShortError, UnavailableError):
            return
        except LogNotFoundError as error:
            if log == self._log and acknowledged:
                self.loud.append(f"{self._name}: {way.__name__} of a log that is there: {error!r}")
        except LogStoreError as error:
            self.loud.append(f"{self._name}: {way.__name__} of {log}: {error!r}")

    def _note(self, check: str, found: Iterable[str], what: str) -> None:
        self.loud += first_findings(check, (f"{self._name}, {what}: {each}" for each in found))

    # ---- inspections

    async def verify(self, log: str) -> Sequence[LedgerCopies | UncheckedLedger]:
        end = self._inspections.now(log)
        found = await self._client.verify(log)
        certain = end()
        accused = c24_no_sound_copy_is_accused(found, certain)
        self._note(c24_no_sound_copy_is_accused.__name__, accused, f"verify {log}")
        entries = {
            int(each.ledger_id): each.entries if isinstance(each, LedgerCopies) else -1 for each in found
        }
        self._leaves_out(entries, certain, f"verify {log}")
        return found

    async def history(self, log: str) -> None:
        end = self._inspections.now(log)
        events = await self._client.history(log)
        self._note(c24_histories_are_in_order.__name__, c24_histories_are_in_order(events), f"history {log}")
        self._compare([each.listed for each in events if each.listed is not None], end(), log, "history")

    async def list_ledgers(self, log: str) -> None:
        end = self._inspections.now(log)
        self._compare(await self._client.list_ledgers(log), end(), log, "ledgers")

    def _compare(self, listed: Sequence[ListedLedger], certain: Certain, log: str, what: str) -> None:
        agreed = c24_lists_agree(listed, self._inspections.listed[log])
        self._note(c24_lists_agree.__name__, agreed, f"{what} {log}")
        entries = {
            int(each.ledger_id): -1 if each.seal is None else each.seal.last_entry + 1 for each in listed
        }
        self._leaves_out(entries, certain, f"{what} {log}")

    def _leaves_out(self, entries: dict[int, int], certain: Certain, what: str) -> None:
        found = c24_inspections_leave_nothing_out(entries, certain)
        self._note(c24_inspections_leave_nothing_out.__name__, found, what)

    async def overview(self, log: str) -> None:
        end = self._inspections.now(log)
        found = await self._client.overview(log)
        contradicted = c24_overviews_agree_with_acknowledgements(found, end())
        self._note(c24_overviews_agree_with_acknowledgements.__name__, contradicted, f"overview {log}")

    async def _explain(self, log: str) -> None:
        """A message that was acknowledged, mostly a late one, one in doubt, or one near it that need not exist."""
        if log != self._log:
            for listed in await self._client.list_ledgers(log):
                await self.explain(log, MessageId(listed.ledger_id, self._chance.randrange(3)))
            return
        acknowledged, in_doubt = self._recorder.acknowledged, self._recorder.in_doubt
        if not acknowledged:
            return
        kind = self._chance.random()
        if kind < 0.3 and in_doubt:
            payload, message_id = self._chance.choice(in_doubt[-20:])
            await self.explain(log, message_id, payload)
            return
        payload, message_id = self._chance.choice(acknowledged if kind < 0.5 else acknowledged[-3:])
        if kind < 0.85:
            await self.explain(log, message_id, payload)
            return
        near = MessageId(
            message_id.ledger_id + self._chance.choice((0, 0, 0, 1)),
            message_id.entry_id + self._chance.randrange(3),
            self._chance.randrange(3),
        )
        await self.explain(log, near)

    async def explain(self, log: str, message_id: MessageId, payload: bytes | None = None) -> None:
        """`payload`: of the append that has this id, if one is known to have it."""
        end, invoked = self._inspections.now(log), self._recorder.now()
        try:
            found = await self._client.explain(log, message_id)
        except UnknownPositionError:
            if message_id in end().acked:
                raise
            return
        certain = end()
        must_have = payload if message_id in certain.acked else None
        wrong = c24_explanations_agree_with_outcomes(found, must_have, certain)
        self._note(c24_explanations_agree_with_outcomes.__name__, wrong, f"explain {log} {message_id}")
        if log != self._log:
            return
        if payload is not None or found.resolution is not Resolution.COMMITTED:
            self._recorder.resolved(payload or b"", message_id, found.resolution.value, invoked)
        if found.message is not None and found.resolution is Resolution.COMMITTED:
            self._explained += 1
            self._recorder.returned_message(f"{self._name}.explains{self._explained}", found.message)
