"""What a bookie promises to a recovering client and refuses to a writer."""

from __future__ import annotations

from typing import Any

from dlog.testing.swarm.actions import Action
from tests.helpers.mutations.mutation import (
    AMBUSHED,
    LATE_LACS,
    SLOW_DISKS,
    THREE,
    Mutation,
    focused,
)
from tests.helpers.mutations.planting import edit

_FENCE = "self._journal.append(RecordType.FENCE, ledger_body(state.ledger_id), on_fence_durable)"

MARK_MADE_WHEN_OPENED = edit(
    "bookie_server.storage.start.opening:open_parts",
    (
        "mark = read_mark(disk, paths)",
        "from bookie_server.storage.start.first_files import make_first_files\n"
        "    if not disk.exists(paths.mark):\n"
        "        make_first_files(disk, config, environment.token)\n"
        "    mark = read_mark(disk, paths)",
    ),
)
EMPTIED: dict[str, Any] = {
    "bookies": 3,
    "writers": 2,
    "fast": False,
    "append_every_s": 0.05,
    "checkpoint_s": 20.0,
    "fault_every_s": 4.0,
    "chaos_s": 12.0,
    "progress_s": 200.0,
}
LOST_FENCES = (
    *(
        action
        for at_s, unreached in ((2.0, "bookie-1"), (2.6, "bookie-2"), (3.2, "bookie-3"))
        for writer in ("writer-0", "writer-1")
        for action in (
            Action(at_s=at_s - 0.01, kind="cut", who=writer, to=unreached, for_s=1.0),
            Action(at_s=at_s, kind="kill_client", who=writer, for_s=0.2),
        )
    ),
    Action(at_s=3.8, kind="rotten_stretch", who="bookie-0", part=".journal", number=6000),
    Action(at_s=3.81, kind="restart_bookie", who="bookie-0"),
)
"""Three takeovers, each of which does not reach one bookie; then another one loses what it has of them."""

MUTATIONS = (
    Mutation(
        "fence-ignored",  # docs/pitfalls.md#paused-writer, #lease-taken-for-safety
        "A fenced ledger takes no add of a normal writer.",
        (
            edit(
                "bookie_server.protocol.refusals:refuse_add",
                ("if (ledger.fenced or ledger.limbo) and not recovery:", "if ledger.limbo and not recovery:"),
            ),
        ),
    ),
    Mutation(
        "fence-bars-recovery",
        "A fenced ledger takes the adds of a recovery.",
        (
            edit(
                "bookie_server.protocol.refusals:refuse_add",
                ("if (ledger.fenced or ledger.limbo) and not recovery:", "if ledger.fenced or ledger.limbo:"),
            ),
        ),
    ),
    Mutation(
        "fence-not-journaled",  # docs/pitfalls.md#fence-not-durable
        "A fence is a durable record: a bookie that forgets it at a crash lets the old writer go on.",
        (
            edit(
                "bookie_server.storage.ledger_storage:LedgerStorage.fence",
                (_FENCE, "self._loop.call_soon(on_fence_durable, None)"),
            ),
        ),
    ),
    Mutation(
        "fence-answered-before-durable",  # docs/pitfalls.md#fence-not-durable
        "A fence is answered when its record is durable.",
        (
            edit(
                "bookie_server.storage.ledger_storage:LedgerStorage.fence",
                (
                    _FENCE,
                    "self._journal.append(RecordType.FENCE, ledger_body(state.ledger_id), None)\n"
                    "    self._loop.call_soon(on_fence_durable, None)",
                ),
            ),
        ),
        plan=focused("slow_sync", "power_cut", "kill_bookie", "power_cut_at_effect", **THREE, writers=3),
    ),
    Mutation(
        "fence-overtakes-adds",  # docs/pitfalls.md#fence-overtakes-an-add
        "A fence is answered after the adds that were accepted before it: else they are acknowledged although "
        "recovery was told that they are absent.",
        (
            edit(
                "bookie_server.storage.ledger_storage:LedgerStorage.fence",
                (
                    _FENCE,
                    "self._journal.append(RecordType.FENCE, ledger_body(state.ledger_id), None)\n"
                    "    self._loop.call_soon(on_fence_durable, None)",
                ),
            ),
            edit(
                "bookie_server.storage.ledger_storage:LedgerStorage.add",
                (
                    "self._advance(state, ids[-1], entries[-1])\n"
                    "        put(state.ledger_id, ids, entries, sum(lengths))\n"
                    "        accepted.append(each)",
                    "accepted.append(each)",
                ),
                (
                    "self._journal.append_adds(all_lengths, all_entries, partial(on_durable, accepted))",
                    "def when_durable(error: Exception | None) -> None:\n"
                    "            for state, run in accepted:\n"
                    "                self._advance(state, run.ids[-1], run.entries[-1])\n"
                    "                size = sum(map(len, run.entries))\n"
                    "                self._caches.active.put(state.ledger_id, run.ids, run.entries, size)\n"
                    "            on_durable(accepted, error)\n"
                    "        self._journal.append_adds(all_lengths, all_entries, when_durable)",
                ),
            ),
        ),
        plan=focused("kill_client", **THREE, **SLOW_DISKS, fast=True, writers=3, append_every_s=0.02),
    ),
    Mutation(
        "unknown-ledger-not-fenced",  # docs/pitfalls.md#fence-of-an-unknown-ledger
        "A fence of a ledger that the bookie never heard of is kept, so that its first add is refused.",
        (
            edit(
                "bookie_server.protocol.fencing:fence",
                (
                    "ledger = service.storage.create_ledger(ledger_id, key)",
                    "done(Status.ENOLEDGER)\n            return",
                ),
            ),
        ),
    ),
    Mutation(
        "fence-not-replayed",  # docs/pitfalls.md#fence-not-durable
        "Replay restores fences like adds.",
        (
            edit(
                "bookie_server.storage.start.journal_recovery:Recovery._on_fence",
                ("state.fenced = state.fence_durable = True", "pass"),
            ),
        ),
    ),
    Mutation(
        "fence-not-in-the-checkpoint",  # docs/pitfalls.md#fence-not-durable
        "What a checkpoint stores of a ledger includes its fence: the journal that held it goes away.",
        (
            edit(
                "bookie_server.storage.index:state_record",
                ("_FENCED * state.fenced | ", ""),
            ),
        ),
    ),
    Mutation(
        "explicit-lac-not-replayed",  # docs/pitfalls.md#replay-not-repeatable
        "Replay restores explicit LACs like adds: an append was acknowledged because they were stored.",
        (
            edit(
                "bookie_server.storage.start.journal_recovery:Recovery._on_explicit_lac",
                ("keep_explicit_lac(self._state(ledger_id), lac, packet)", "pass"),
            ),
        ),
        plan=focused(
            "kill_bookie", "kill_many", "power_cut", **THREE, readers=6, append_every_s=0.5, fast=False
        ),
    ),
    Mutation(
        "explicit-lac-not-journaled",
        "An explicit LAC is answered when it is durable.",
        (
            edit(
                "bookie_server.storage.ledger_storage:LedgerStorage.set_explicit_lacs",
                (
                    "self._journal.append_all(RecordType.EXPLICIT_LAC, bodies, on_durable)",
                    "self._loop.call_soon(on_durable, None)",
                ),
            ),
        ),
        plan=focused(
            "kill_bookie", "kill_many", "power_cut", **THREE, readers=6, append_every_s=0.5, fast=False
        ),
    ),
    Mutation(
        "explicit-lac-falls",  # docs/pitfalls.md#replay-not-repeatable
        "A bookie's LAC of a ledger never falls, in whatever order the writes come.",
        (
            edit(
                "bookie_server.storage.start.journal_recovery:keep_explicit_lac",
                ("if lac < state.explicit_lac_value:", "if False:"),
            ),
        ),
        plan=focused(**LATE_LACS),
    ),
    Mutation(
        "repeated-add-compared-with-its-lac",  # docs/pitfalls.md#other-bytes-under-one-id
        "An add of a stored entry with another LAC in its header is a repetition, not a conflict: recovery sends "
        "such ones.",
        (
            edit(
                "bookie_server.storage.repeated_adds:same_payload",
                ("if stored == offered:", "if True:"),
                ("return True", "return stored == offered"),
            ),
        ),
        plan=focused("kill_client", "ambush", "clog", **THREE, append_every_s=0.02),
    ),
    Mutation(
        "error-answered-as-absence",  # docs/pitfalls.md#damage-answered-as-absence
        "A bookie says no only when a healthy lookup proves it; whatever it cannot read is unknown.",
        (
            edit(
                "bookie_server.protocol.service:status_of",
                ("case _:\n            return Status.EIO", "case _:\n            return Status.ENOENTRY"),
            ),
        ),
        plan=focused("unreadable", **THREE, checkpoint_s=0.5, append_every_s=0.2),
    ),
    Mutation(
        "limbo-denies",  # docs/pitfalls.md#doubt-answered-as-absence
        "A bookie that may have lost part of its journal never proves absence.",
        (
            edit(
                "bookie_server.storage.reads:StorageReads._check_absence",
                ("if state.limbo or self.limbo:", "if False:"),
            ),
            edit(
                "bookie_server.storage.ledger_storage:LedgerStorage.ledger",
                ("if state is None and self.limbo:", "if False:"),
            ),
        ),
        profile="beyond",
        plan=focused(
            "rotten_ambush",
            **AMBUSHED,
        ),
    ),
    Mutation(
        "limbo-forgets-its-fences",  # docs/pitfalls.md#doubt-answered-as-absence
        "A bookie that may have lost part of its journal may have lost a fence with it: it takes no normal add; "
        "as a whole it is read-only, and each of its ledgers refuses.",
        (
            edit(
                "bookie_server.protocol.refusals:refuse_add",
                (
                    "if (ledger.fenced or ledger.limbo) and not recovery:",
                    "if ledger.fenced and not recovery:",
                ),
            ),
            edit(
                "bookie_server.disk.disk_watch:writability_of",
                ("storage.writable and not storage.limbo", "storage.writable"),
            ),
        ),
        profile="beyond",
        plan=focused(
            "rotten_fence",
            **THREE,
            bookies=3,
            writers=2,
            fast=False,
            append_every_s=0.2,
            checkpoint_s=20.0,
            patience=1.0,
            fault_every_s=3.0,
            chaos_s=6.0,
            progress_s=200.0,
        ),
    ),
    Mutation(
        "limbo-ends-unfenced",  # docs/pitfalls.md#doubt-answered-as-absence
        "A bookie fences every ledger again that is not open any more before its limbo ends.",
        (
            edit(
                "bookie_server.storage.ledger_storage:LedgerStorage.restore_ledger",
                ("if ended:", "if False:"),
            ),
        ),
        plan=focused(
            ensemble=4,
            write=4,
            ack=2,
            bookies=6,
            writers=2,
            repairers=1,
            fast=False,
            limbo=True,
            garbage=False,
            checkpoint_s=20.0,
            rotation_age_s=0.7,
            chaos_s=16.0,
            actions=LOST_FENCES,
        ),
    ),
    Mutation(
        "empty-disk-accepted",  # docs/pitfalls.md#empty-disk-under-an-old-name
        "A bookie that finds its disk empty under its old name refuses to start: it would deny what it held.",
        (
            edit(
                "bookie_server.cookie:judge",
                ("if each.cookie is None and each.directory not in added:", "if False:"),
                ("if each.missing is not None:", "if False:"),
            ),
            MARK_MADE_WHEN_OPENED,
        ),
        profile="beyond",
        plan=focused("wiped_ambush", **THREE, **EMPTIED),
    ),
    Mutation(
        "emptied-disk-accepted",  # docs/pitfalls.md#empty-disk-under-an-old-name
        "A bookie that finds nothing but its cookies on its disk refuses to start: a known bookie has a log mark.",
        (
            edit("bookie_server.cookie:judge", ("if each.missing is not None:", "if False:")),
            MARK_MADE_WHEN_OPENED,
        ),
        profile="beyond",
        plan=focused("emptied_ambush", **THREE, **EMPTIED),
    ),
)
