"""Repairers of the swarm: auditors and workers, killed and paused as every process, and a look at the end.

While faults go on they mark, copy, replace members and recover ledgers that have lost one. Once all is healed every
entry must get its write quorum of copies: the half of C14 that only repair brings about.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace

from dlog.client import LogClient
from dlog.config import LogConfig
from dlog.testing.checks.copies import audit
from dlog.testing.checks.decoded import decode_ledger_metadata
from dlog.testing.cluster import SimulatedCluster
from dlog.testing.metadata.history import CallOutcome, RegisterHistory
from ledger.errors import LedgerNotFoundError, RecordNotFoundError
from ledger.model import BookieId, LedgerId, LedgerMetadata
from ledger.repair.auditor import Auditor
from ledger.repair.config import RepairConfig
from ledger.repair.copying.checker import Depth
from ledger.repair.ledger_repair import LedgerRepair, Scope
from ledger.repair.outcome import LedgerOutcome, sentence
from ledger.repair.worker import Worker

REPAIRER = "repairer"
"""How the names of these processes begin."""
QUICK = RepairConfig(
    lost_bookie_delay_s=1,
    copy_check_interval_s=5.0,
    open_ledger_grace_s=2.0,
    poll_s=1.0,
    retry_first_s=0.5,
    retry_max_s=2.0,
)
_ALL = Scope(others=Depth.ALL)
_TRIES = 5
_AGAIN_S = 1.0
_ANSWER_S = 25.0
"""Longer than any packet is on its way, and than `DiskTiming.slow_sync_s`: a check of copies waits for a sync, too."""


class SwarmRepairer:
    """One process: a candidate for auditor and a worker."""

    def __init__(self, client: LogClient, label: str) -> None:
        self.wrong: list[str] = []
        self.loud: list[str] = []
        self._client = client
        self._name = f"{label.replace('#', '-')}:1"

    async def run(self) -> None:
        ledgers = self._client.ledgers
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(Auditor(ledgers, QUICK, self._name).run())
            tasks.create_task(Worker(ledgers, QUICK, self._name).run())


def patient(config: LogConfig) -> LogConfig:
    """Settings of the client for `wrong_in_the_end`: it waits for every answer that comes.

    After one timeout a check of copies does not ask the bookie again for `copy_audit.SILENCE_S`: longer than all tries.
    """
    ledger = replace(
        config.ledger,
        connect_timeout_s=_ANSWER_S,
        add_timeout_s=_ANSWER_S,
        read_timeout_s=_ANSWER_S,
        probe_timeout_s=_ANSWER_S,
    )
    return replace(config, ledger=ledger)


def closed_unheard(history: RegisterHistory) -> dict[LedgerId, set[BookieId]]:
    """The members of the ledgers whose closing had no answer, perhaps since its client was killed.

    What they lack is marked after the answer. One that was only lost counts, too: its client asks what became of it,
    and may be killed before it knows.
    """
    found: dict[LedgerId, set[BookieId]] = {}
    for call in history.calls:
        if call.operation != "write" or call.outcome is not CallOutcome.UNKNOWN or call.value is None:
            continue
        if call.register.startswith("ledger/") and (metadata := decode_ledger_metadata(call.value)).closed:
            ledger_id = LedgerId(int(call.register.removeprefix("ledger/")))
            found.setdefault(ledger_id, set()).update(metadata.members())
    return found


async def wrong_in_the_end(
    client: LogClient,
    cluster: SimulatedCluster,
    unmarked: Mapping[LedgerId, Collection[BookieId]],
    *,
    has_copiers: bool,
) -> list[str]:
    """Repair every closed ledger, and read every copy: violations of C14. All faults have ended.

    `client` has `patient` settings. An open ledger, which no log lists any more, may still name a lost bookie: only its
    closed fragments are repaired. In half of the runs only as much is read as marks ask for: all copies of the bookies
    in the ledger's mark. `unmarked`: bookies whose mark was lost with a process. `has_copiers`: some copied single
    entries; one at the end of a fragment hides those that a replaced member lacks before it.

    A bookie whose index is damaged may not find what is written to it from then on, and may stop again and again, until
    its operator builds the index anew: its copies are not required.
    """
    is_full = has_copiers or cluster.loop.seeds.stream("depth of the last repair").random() < 0.5
    repair = LedgerRepair(client.ledgers)
    found: list[str] = []
    unfit = [bookie for bookie in cluster.bookies if bookie.disk.index_damaged and not bookie.lost]
    try:
        sound = sum(bookie.sound for bookie in cluster.bookies)
        damaged = {bookie.bookie_id for bookie in cluster.bookies if bookie.damaged}
        async for ledger_id in client.ledgers.store.ledger_ids():
            try:
                metadata = (await client.ledgers.store.read_ledger(ledger_id)).value
                scope = _ALL if is_full else await _as_marked(client, ledger_id, metadata, unmarked, damaged)
                if sound < metadata.quorum.ensemble:
                    await repair.repair(ledger_id, scope)
                    continue  # too many are lost: there is no place for each copy, however often it is tried
                outcome = await _repaired(repair, ledger_id, scope)
                # As repair has left it.
                metadata = (await client.ledgers.store.read_ledger(ledger_id)).value
                if outcome.left and not any(bookie.bookie_id in metadata.members() for bookie in unfit):
                    found.append(f"c14_write_quorum_after_repair: {sentence(outcome)}")
                elif metadata.closed:
                    found += await audit(client.ledgers, [ledger_id], unfit, repaired=True)
            except LedgerNotFoundError:
                continue
    finally:
        await repair.close()
    return found


async def _as_marked(
    client: LogClient,
    ledger_id: LedgerId,
    metadata: LedgerMetadata,
    unmarked: Mapping[LedgerId, Collection[BookieId]],
    damaged: Collection[BookieId],
) -> Scope:
    """What a worker that finds the mark would check, with that which the scrubbers of damaged bookies would make."""
    if not metadata.closed:
        return Scope()  # with suspects in its open fragment it would count as not repaired
    suspects = {*unmarked.get(ledger_id, ()), *damaged}
    with suppress(RecordNotFoundError):
        suspects.update((await client.ledgers.store.repair.read_mark(ledger_id)).value.missing)
    # A member that was replaced may lack the end of its fragment, which no mark says.
    others = Depth.NONE if len(metadata.fragments) == 1 else Depth.ENDS
    return Scope(suspects=frozenset(suspects), others=others)


async def _repaired(repair: LedgerRepair, ledger_id: LedgerId, scope: Scope) -> LedgerOutcome:
    outcome = await repair.repair(ledger_id, scope)
    for _ in range(_TRIES):
        if outcome.complete or outcome.deleted:
            break
        await asyncio.sleep(_AGAIN_S)  # a bookie that has just started registers
        outcome = await repair.repair(ledger_id, scope)
    return outcome
