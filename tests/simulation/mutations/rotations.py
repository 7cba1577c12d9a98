"""One ledger after the other, and what a writer tells its callers."""

from __future__ import annotations

from typing import Any

from dlog.testing.swarm.actions import Action
from tests.helpers.mutations.mutation import (
    ONE_OF_SIX,
    QUIET,
    ROTATING,
    SLEEP,
    SLOW_DISKS,
    SPARES,
    THREE,
    Mutation,
    focused,
)
from tests.helpers.mutations.planting import edit

FORGETFUL = (
    edit(
        "bookie_server.protocol.refusals:refuse_add",
        ("if ledger.deleted:", "if ledger.deleted:\n        return None\n    if ledger.deleted:"),
    ),
    edit(
        "dlog.metadata.grace:deletions_are_durable",
        ("infos = (*registered.writable, *registered.read_only)", "infos = ()"),
    ),
)
"""Bookies that take adds to a ledger that they have deleted, and that do not promise otherwise."""
ASLEEP: dict[str, Any] = {
    **THREE,
    "bookies": 3,
    "writers": 2,
    "readers": 1,
    "fast": True,
    "shrinks": True,
    "chaos_s": 26.0,
    "actions": SLEEP,
}
OWNER_ASLEEP: dict[str, Any] = {
    **ASLEEP,
    **QUIET,
    "writers": 2,
    "polite": 0.0,
    "term_s": 1000.0,
    "hold_s": 60.0,
    "garbage": False,
    "gc_interval_s": 0.7,
    "actions": (Action(at_s=0.05, kind="pause_client", who="writer-1", for_s=2.5), *SLEEP),
}
"""The other writer comes only when writer-0, which has the log until then, is asleep."""

MUTATIONS = (
    Mutation(
        "append-waits-without-limit",
        "An append ends within the writer's limit, also behind a full ledger that nothing can replace.",
        (
            edit(
                "dlog.write.append_deadline:AppendDeadline.look",
                ("if waited_s >= self._limit_s:", "if False:"),
            ),
        ),
        plan=focused(
            **THREE | {"payload_bytes_max": 500, "chaos_s": 24.0},
            bookies=3,
            writers=1,
            readers=1,
            degraded=False,
            hold_s=2.0,
            rotation_bytes=2_000,
            term_s=100.0,
            actions=(Action(at_s=3.0, kind="kill_bookie", who="bookie-1", for_s=20.0),),
        ),
    ),
    Mutation(
        "successor-used-before-the-drain",  # docs/pitfalls.md#overlapping-rotation
        "Nothing is submitted to the next ledger while the one before has entries in flight.",
        (
            edit(
                "dlog.core.rotation:Rotation._drain",
                (
                    "return [Hold(), Drain(self._current)]",
                    "assert self._next is not None\n    return [SubmitTo(self._next), Drain(self._current)]",
                ),
            ),
        ),
        # With one copy, a link that stands still often holds back all of a ledger, and nothing of the next one.
        plan=focused(
            "dying_writer",
            **ONE_OF_SIX,
            **QUIET,
            batching=False,
            more_ways=True,
            fast=False,
            rotation_entries=5,
            append_every_s=0.02,
            store_s_max=0.03,
            patience=1.0,
            readers=1,
            chaos_s=24.0,
        ),
    ),
    Mutation(
        "successor-acked-before-the-seal",  # docs/pitfalls.md#overlapping-rotation
        "No append in the next ledger is acknowledged before the one before is sealed: no reader gets that far.",
        (
            edit(
                "dlog.core.rotation:Rotation.on_drained",
                (
                    "return [CloseLedger(ledger_id), SubmitTo(self._next)]",
                    "return [CloseLedger(ledger_id), SubmitTo(self._next), Release(self._next)]",
                ),
            ),
        ),
        # It shows when a close fails.
        plan=focused("metadata_unavailable", "metadata_request_lost", "metadata_answer_lost", **ROTATING),
    ),
    Mutation(
        "successor-submitted-to-before-it-is-listed",  # docs/pitfalls.md#write-before-the-list
        "Nothing is submitted to a ledger before the record lists it: no reader would find it there.",
        (
            edit(
                "dlog.core.rotation:Rotation.on_ledger_created",
                (
                    "return self._list(now_us, nonce)",
                    "return [SubmitTo(ledger_id), *self._list(now_us, nonce)]",
                ),
            ),
        ),
        plan=focused(
            "dying_writer",
            **SPARES | {"ack": 3},
            rotation_entries=5,
            append_every_s=0.02,
            store_s_max=0.2,
        ),
    ),
    Mutation(
        "failed-ledger-resubmitted-whole",  # docs/pitfalls.md#append-sent-again
        "What recovery found of a failed ledger is acknowledged where it is; only the rest is sent again.",
        (
            edit(
                "dlog.write.own_takeover:OwnTakeover._decide",
                ("self._queue.on_acked(*active_ledger.deliver(metadata.last_entry))", "pass"),
            ),
        ),
    ),
    Mutation(
        "failed-ledger-acked-whole",  # docs/pitfalls.md#append-sent-again
        "What recovery did not find of a failed ledger is sent again, not acknowledged.",
        (
            edit(
                "dlog.write.own_takeover:OwnTakeover._decide",
                (
                    "active_ledger.deliver(metadata.last_entry)",
                    "active_ledger.deliver(active_ledger.handle.last_add_pushed)",
                ),
            ),
        ),
    ),
    Mutation(
        "resent-without-settling",  # docs/pitfalls.md#append-sent-again
        "An append whose fate is unknown is not sent again before the ledger that may hold it is settled.",
        (
            edit(
                "dlog.write.rotation_runner:RotationRunner.on_failure",
                (
                    "self._waits.report(",
                    "taken = active_ledger.take_back()\n    self._queue.take_back(taken)\n    self._waits.report(",
                ),
            ),
        ),
    ),
    Mutation(
        "own-takeover-recovers-only-the-last",  # docs/pitfalls.md#overlapping-rotation
        "A writer that goes on after a failure has sealed all its ledgers: a reader never gets past an open one.",
        (
            edit(
                "dlog.core.takeover:Takeover._to_fence",
                ("return tuple(", "return (lambda found: found[-1:])(tuple("),
                ("not in sealed\n    )", "not in sealed\n    ))"),
            ),
        ),
        plan=focused("kill_many", **THREE, rotation_entries=5, rotation_age_s=0.7),
    ),
    Mutation(
        "in-flight-called-absent",  # docs/pitfalls.md#timeout-as-failure
        "What was in flight when the writer lost its log is indeterminate: it may be there.",
        (
            edit(
                "dlog.write.append_queue:AppendQueue.fail_indeterminate",
                (
                    "pending_entry.fail_indeterminate(active_ledger.ledger_id, cause)",
                    "pending_entry.fail_absent(cause)",
                ),
            ),
        ),
    ),
    Mutation(
        "would-be-id-of-the-next-entry",  # docs/pitfalls.md#timeout-as-failure
        "An indeterminate append names the only id that it can have.",
        (
            edit(
                "dlog.write.pending_entry:PendingEntry.fail_indeterminate",
                (
                    "MessageId(ledger_id, self.entry_id, index)",
                    "MessageId(ledger_id, self.entry_id + 1, index)",
                ),
            ),
        ),
    ),
    Mutation(
        "absent-while-undecided",  # docs/pitfalls.md#timeout-as-failure
        "An append is called absent when its ledger is sealed below it; before, it may still come.",
        (
            edit(
                "dlog.read.resolution:_in_ledger",
                (
                    "return Resolution.ABSENT if sealed else Resolution.UNDECIDED",
                    "return Resolution.ABSENT",
                ),
            ),
        ),
        plan=focused(
            **THREE,
            **SLOW_DISKS,
            writers=2,
            fast=True,
            append_every_s=0.02,
            term_s=0.5,
            aborts=1.0,
            resolves=1.0,
        ),
    ),
    Mutation(
        "held-appends-out-of-order",
        "Appends that come back from a failed ledger go before those that came later.",
        (
            edit(
                "dlog.write.append_queue:AppendQueue.take_back",
                ("self._held.extendleft(reversed(entries))", "self._held.extend(entries)"),
            ),
        ),
    ),
    Mutation(
        "new-appends-overtake-held-ones",
        "While appends wait for a ledger, later ones wait behind them.",
        (
            edit(
                "dlog.write.append_queue:AppendQueue.submit_to",
                ("held.popleft()", "held.pop()"),
            ),
        ),
    ),
    Mutation(
        "late-close-counts",  # docs/pitfalls.md#overlapping-rotation
        "A close that ends after its ledger was settled means nothing any more: another ledger is in use.",
        (
            edit(
                "dlog.core.rotation:Rotation.on_closed",
                ("if ledger_id != self._current:\n        return []\n    ", ""),
                ("self._attempts = 0\n", "assert ledger_id == self._current\n    self._attempts = 0\n"),
            ),
        ),
        given=(
            edit(
                "dlog.write.rotation_runner:RotationRunner._close_ledger",
                (
                    "metadata = await active_ledger.handle.close()",
                    "metadata = await active_ledger.handle.close()\n"
                    "        await asyncio.sleep(1.5 * self._environment.rng.random())",
                ),
            ),
        ),
        plan=focused(
            "kill_many",
            **THREE,
            bookies=3,
            writers=1,
            readers=1,
            rotation_entries=5,
            rotation_age_s=0.7,
            patience=0.1,
            fault_every_s=1.0,
        ),
    ),
    Mutation(
        "epoch-not-confirmed-before-an-ack",  # docs/pitfalls.md#paused-writer
        "Where bookies forget deletions, an ack counts only while the epoch was confirmed within half the grace.",
        (
            edit(
                "dlog.metadata.grace:EpochGuard.stale",
                (
                    "return half_s > 0 and now - self._confirmed_at > half_s",
                    "return False",
                ),
            ),
        ),
        given=FORGETFUL,
        # Without the bug, too, forgetful bookies confirm what the sleeper adds once it is awake, and keep what was late
        # in their indexes. So it wakes only to hear of its late entries, and indexes are made anew.
        plan=focused(
            **{
                **OWNER_ASLEEP,
                "graces_s": (3.0,),
                "rotation_entries": 50,
                "rotation_age_s": 0.7,
                "rebuilds": True,
                "chaos_s": 28.0,
                "actions": (
                    *OWNER_ASLEEP["actions"],
                    Action(at_s=24.5006, kind="kill_client", who="writer-0", for_s=1.0),
                ),
            }
        ),
    ),
    Mutation(
        "deletion-grace-forgotten",  # docs/pitfalls.md#late-add-to-a-deleted-ledger
        "Where bookies forget deletions, a ledger whose writer may sleep outlives its log's next takeover.",
        (
            edit(
                "dlog.core.metadata_changes:_fenced",
                ("now_us + record.grace_us if record.grace_us else 0", "0"),
            ),
        ),
        given=FORGETFUL,
        plan=focused(**ASLEEP),
    ),
    Mutation(
        "grace-of-the-taker",  # docs/pitfalls.md#late-add-to-a-deleted-ledger
        "The grace is the log's: a taker with a shorter one keeps what the sleeping owner counts on.",
        (
            edit(
                "dlog.core.metadata_changes:_with_grace",
                ("max(record.grace_us, grace_us)", "grace_us"),
            ),
        ),
        given=FORGETFUL,
        plan=focused(**ASLEEP, graces_s=(1000.0, 0.0)),
    ),
    Mutation(
        "durable-deletions-taken-for-granted",  # docs/pitfalls.md#late-add-to-a-deleted-ledger
        "Whether bookies remember a deletion is asked of each bookie of the ledger; one that forgets takes adds again.",
        (edit("dlog.metadata.grace:deletions_are_durable", ("return False", "return True")),),
        given=FORGETFUL,
        plan=focused(**ASLEEP),
    ),
)
