"""Bugs of requests to a log's owner: how they reach it, and how it ends when it is asked to."""

from __future__ import annotations

from tests.helpers.mutations.mutation import QUIET, THREE, Mutation, focused
from tests.helpers.mutations.planting import edit

_POLITE = {**THREE, "polite": 1.0, "writers": 3, "term_s": 100.0}

MUTATIONS = (
    Mutation(
        "touch-by-blind-put",
        "What wakes an owner is a compare-and-set too: else it undoes a rotation or a takeover made since the read.",
        (
            edit(
                "dlog.metadata.store:LogMetadataStore.touch",
                (
                    "self.compare_and_set(ref, touched, read.version, limit_s=TOUCH_S_MAX)",
                    "self.compare_and_set(ref, touched, (await self.read(ref)).version, limit_s=TOUCH_S_MAX)",
                ),
            ),
        ),
        plan=focused(**_POLITE, rotation_age_s=0.7),
    ),
    Mutation(
        "owner-accepts-appends-while-it-hands-over",
        "An owner that hands its log over refuses new appends: one that comes after the drain has no ledger to go to.",
        (
            edit(
                "dlog.write.rotation_runner:RotationRunner._hand_over",
                ("self._queue.refuse(self._handed_over)", "pass"),
            ),
        ),
        # A partial batch also waits while nothing is in flight; else an append must come in the last turn of the owner.
        given=(
            edit(
                "dlog.write.append_queue:AppendQueue._flush_due",
                ("in_flight=self._entries_in_flight > 0", "in_flight=True"),
            ),
        ),
        plan=focused(
            **{
                **_POLITE,
                **QUIET,
                "writers": 6,
                "readers": 1,
                "fast": True,
                "batching": True,
                "append_every_s": 0.015,
                "rotation_entries": 500,
                "rotation_age_s": 30.0,
                "chaos_s": 12.0,
            }
        ),
    ),
    Mutation(
        "in-flight-called-absent-when-handing-over",
        "An owner that hands its log over waits for what is in flight, which may be stored and is no refused append.",
        (
            edit(
                "dlog.write.rotation_runner:RotationRunner._hand_over",
                (
                    "self._queue.refuse(self._handed_over)",
                    "for active_ledger in self._active_ledgers.values():\n"
                    "        taken = active_ledger.take_back()\n"
                    "        for pending_entry in taken:\n"
                    "            pending_entry.fail_absent(self._handed_over)\n"
                    "        self._queue.on_acked(len(taken), sum(one.size for one in taken))\n"
                    "    self._queue.refuse(self._handed_over)",
                ),
            ),
        ),
        plan=focused(**_POLITE),
    ),
)
