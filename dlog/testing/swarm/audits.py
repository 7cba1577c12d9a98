"""Checks of the cluster when a run is over: metadata history, bookies, disks, what was left open."""

from __future__ import annotations

from collections.abc import Mapping

from bookie_server.storage.scrub.record import ScrubPass
from dlog.core import metadata_keys
from dlog.testing.checks.checks import first_findings
from dlog.testing.checks.history import History
from dlog.testing.checks.ledger_ends import (
    c1_acknowledged_within_its_ledger,
    c6_each_ledger_has_the_messages_of_one_epoch,
    c12_recoverers_agree,
    c13_ledgers_are_deleted_by_their_own_log,
    c15_fences_are_permanent,
)
from dlog.testing.checks.leftovers import c17_no_file_is_left_over
from dlog.testing.checks.promises import c15_no_ledger_ends_below_its_lac
from dlog.testing.checks.registers import c16_registers_are_linearizable
from dlog.testing.checks.scrubbing import c20_scrubbers_find_what_is_damaged
from dlog.testing.checks.transitions import c13_ledger_metadata_moves_legally, c13_log_records_move_legally
from dlog.testing.cluster import SimulatedCluster
from dlog.testing.metadata.history import RegisterHistory
from dlog.testing.swarm.plan import Plan
from dlog.testing.swarm.processes.cancellers import CANCELLER_ROOT
from dlog.testing.swarm.processes.neighbours import NEIGHBOUR_ROOT
from dlog.testing.swarm.processes.parallel_logs import PARALLEL_ROOT
from dlog.testing.swarm.processes.producers import PRODUCER_ROOT
from dlog.testing.swarm.processes.sinks import SINK_ROOT
from ledger.model import BookieId


def root_of(process: str) -> str:
    """Where the records of its logs are."""
    match process.partition("-")[0]:
        case "neighbour":
            return NEIGHBOUR_ROOT
        case "canceller":
            return CANCELLER_ROOT
        case "parallel":
            return PARALLEL_ROOT
        case "producer":
            return PRODUCER_ROOT
        case "sink":
            return SINK_ROOT
        case _:
            return metadata_keys.DEFAULT_ROOT


def metadata_findings(history: History, changes: RegisterHistory) -> list[str]:
    """C16, C12, C13, and of C1 and C6 what metadata shows."""
    found = first_findings("c16_registers_are_linearizable", c16_registers_are_linearizable(changes))
    for check in (c12_recoverers_agree, c13_ledger_metadata_moves_legally, c13_log_records_move_legally):
        found += first_findings(check.__name__, check(changes))
    deletions = c13_ledgers_are_deleted_by_their_own_log(changes, root_of)
    found += first_findings("c13_ledgers_are_deleted_by_their_own_log", deletions)
    for of_both in (c1_acknowledged_within_its_ledger, c6_each_ledger_has_the_messages_of_one_epoch):
        found += first_findings(of_both.__name__, of_both(history, changes))
    return found


def broken_promises(cluster: SimulatedCluster) -> list[str]:
    """C15."""
    found = _forgotten_fences(cluster)
    reported: dict[int, int] = {}
    for bookie in cluster.bookies:
        found += bookie.promises.broken if bookie.sound else bookie.promises.broken_in_limbo
        for ledger_id, lac in bookie.promises.reported_lacs.items():
            reported[ledger_id] = max(lac, reported.get(ledger_id, lac))
        if bookie.lost and bookie.serving:
            found.append(f"c15_promises_are_kept: {bookie.name} serves although it was lost")
    ended = c15_no_ledger_ends_below_its_lac(cluster.metadata.history, reported)
    return found + first_findings("c15_no_ledger_ends_below_its_lac", ended)


def _forgotten_fences(cluster: SimulatedCluster) -> list[str]:
    bookies = {bookie.bookie_id: bookie for bookie in cluster.bookies}

    def refuses(bookie_id: BookieId, ledger_id: int) -> bool:
        bookie = bookies[bookie_id]
        return (bookie.server is None and not bookie.sound) or bookie.refuses_adds_to(ledger_id)

    found = c15_fences_are_permanent(cluster.metadata.history, refuses)
    return first_findings("c15_fences_are_permanent", found)


def unfound_damage(cluster: SimulatedCluster, plan: Plan, found: Mapping[str, ScrubPass]) -> list[str]:
    """C20, of bookies that have stopped; `found` by their last passes, by their names."""
    name = "c20_scrubbers_find_what_is_damaged"
    return [
        f"{each} ({bookie.name})"
        for bookie in cluster.bookies
        if bookie.name in found
        for each in first_findings(
            name,
            c20_scrubbers_find_what_is_damaged(
                bookie.disk, plan.storage(), found[bookie.name], sound=bookie.sound
            ),
        )
    ]


def leaks(cluster: SimulatedCluster, plan: Plan) -> list[str]:
    """C17: a process that closed what it opened has no task and no open file left.

    That a bookie removes files without a live ledger is checked by `dead_files_are_removed` (garbage.py).
    """
    found: list[str] = []
    for node in cluster.loop.nodes():
        if node.alive and node is not cluster.loop.world:
            found += [
                f"c17_progress: {node.label} left {task.get_name()} running: {task!r}"
                for task in node.pending_tasks()
            ]
    for bookie in cluster.bookies:
        if left := bookie.disk.open_files():
            found.append(f"c17_progress: {bookie.name} left files open: {left}")
        if plan.profile != "beyond" and bookie.sound:
            files = c17_no_file_is_left_over(bookie.disk, plan.storage(), swept=False)
            found += first_findings("c17_no_file_is_left_over", files)
    return found
