"""Thresholds: how many answers, acknowledgements and denials prove something."""

from __future__ import annotations

from tests.helpers.mutations.mutation import (
    ALL_THREE,
    SLOW_DISKS,
    STRIPED,
    THREE,
    Mutation,
    focused,
)
from tests.helpers.mutations.planting import edit

MUTATIONS = (
    Mutation(
        "lac-of-too-few",
        "A reader's last add confirmed comes from answers that cover every write set; with one answer fewer it "
        "misses messages that were acknowledged before it was opened.",
        (
            edit(
                "ledger.reading.lac_reader:LacReader.covering",
                (
                    "while not collector.covered:",
                    "while len(collector._known) < metadata.quorum.ensemble - metadata.quorum.ack:",
                ),
            ),
        ),
        plan=focused("cut_one_way", "clog", **THREE, readers=6, append_every_s=0.5, fast=False),
    ),
    Mutation(
        "lac-stored-on-one",
        "An explicit LAC counts as visible once an ack quorum has stored it; on one bookie it can be missed.",
        (
            edit(
                "ledger.core.quorum:stored_on_quorum",
                ("sorted(values)[-quorum.ack]", "max(values)"),
                ("ranked[quorum.ack - 1]", "ranked[0]"),
            ),
        ),
        plan=focused(
            "slow_sync", "clog", **ALL_THREE, **SLOW_DISKS, witnesses=2, append_every_s=0.1, fast=False
        ),
    ),
    Mutation(
        "last-fragment-is-no-floor",  # docs/pitfalls.md#recovery-below-the-last-fragment
        "Everything before the last fragment is confirmed: without this floor a reader asks new members that "
        "know nothing of it.",
        (
            edit(
                "ledger.core.lac:LacCollector.__init__",
                ("EntryId(metadata.last_fragment.first_entry - 1)", "EntryId(-1)"),
            ),
            edit(
                "ledger.reading.read_handle:ReadHandle.__init__",
                ("EntryId(metadata.value.last_fragment.first_entry - 1)", "EntryId(-1)"),
            ),
        ),
        plan=focused(
            "kill_bookie", **ALL_THREE | {"bookies": 6}, writers=1, readers=6, append_every_s=1.0, fast=False
        ),
    ),
    Mutation(
        "ack-one-copy-short",
        "An entry is acknowledged when its ack quorum has it, not one bookie earlier.",
        (
            edit(
                "ledger.core.append:AppendMachine._advance_lac",
                ("< self._quorum.ack:", "< max(1, self._quorum.ack - 1):"),
                ("at_least(self._quorum.ack,", "at_least(max(1, self._quorum.ack - 1),"),
            ),
        ),
    ),
    Mutation(
        "ack-over-a-gap",  # docs/pitfalls.md#ack-over-a-gap
        "The LAC never passes a gap: a later entry that reached its quorum first waits for the one before it.",
        (
            edit(
                "ledger.core.append:AppendMachine._advance_lac",
                ("if count < self._quorum.ack:", "if False:"),
                (
                    "trailing_ones(at_least(self._quorum.ack, self._acked))",
                    "at_least(self._quorum.ack, self._acked).bit_length()",
                ),
            ),
        ),
    ),
    Mutation(
        "fence-one-bookie-short",  # docs/pitfalls.md#fences-counted-without-striping
        "Recovery goes on once so many bookies are fenced that the others form no ack quorum; one fewer leaves "
        "the old writer a quorum.",
        (
            edit(
                "ledger.core.recovery:RecoveryMachine.on_fence_answer",
                (
                    "if self._collector.covered:",
                    "quorum = self._metadata.quorum\n"
                    "    if len(self._collector._known) >= quorum.ensemble - quorum.ack:",
                ),
            ),
        ),
        plan=focused("pause_bookie", "kill_bookie", "isolate", **STRIPED),
    ),
    Mutation(
        "fence-counted-without-striping",  # docs/pitfalls.md#fences-counted-without-striping
        "With more bookies than copies each write set has to be covered: a plain count leaves some set unfenced.",
        (
            edit(
                "ledger.core.recovery:RecoveryMachine.on_fence_answer",
                (
                    "if self._collector.covered:",
                    "quorum = self._metadata.quorum\n"
                    "    if len(self._collector._known) >= quorum.write - quorum.ack + 1:",
                ),
            ),
        ),
        plan={"bookies": 5, "ensemble": 5, "write": 3, "ack": 2},
    ),
    Mutation(
        "absence-one-denial-short",  # docs/pitfalls.md#absence-by-the-first-denial
        "An entry is absent when so many bookies deny it that no ack quorum can hold it; with one denial fewer "
        "recovery cuts off what was acknowledged.",
        (
            edit(
                "ledger.core.quorum:absence_proved",
                ("quorum.write - quorum.ack + 1", "quorum.write - quorum.ack"),
            ),
        ),
    ),
    Mutation(
        "absence-by-the-first-denial",  # docs/pitfalls.md#absence-by-the-first-denial
        "One bookie that never got an entry proves nothing.",
        (edit("ledger.core.quorum:absence_proved", ("quorum.write - quorum.ack + 1", "1")),),
    ),
    Mutation(
        "error-taken-for-denial",  # docs/pitfalls.md#unknown-counted-as-no
        "Only an explicit denial is a no: a bookie that answers with an error may have the entry.",
        (edit("ledger.wire.status:answer_of", ("Answer.UNKNOWN", "Answer.PROVED_NO")),),
        plan=focused("unreadable", **THREE, checkpoint_s=0.5, append_every_s=0.2),
    ),
    Mutation(
        "silence-taken-for-denial",  # docs/pitfalls.md#unknown-counted-as-no
        "Only an explicit denial is a no: a bookie that does not answer in time may have the entry.",
        (
            edit(
                "ledger.reading.bookie_reads:_ask",
                (
                    "except TimeoutError:\n        return BookieAnswer(Answer.UNKNOWN",
                    "except TimeoutError:\n        return BookieAnswer(Answer.PROVED_NO",
                ),
            ),
        ),
        plan=focused(
            "isolate", "pause_bookie", "kill_client", **THREE, fast=True, writers=3, append_every_s=0.02
        ),
    ),
    Mutation(
        "unreachable-taken-for-denial",  # docs/pitfalls.md#unknown-counted-as-no
        "Only an explicit denial is a no: a bookie that cannot be reached may have the entry.",
        (
            edit(
                "ledger.writing.recovery_runner:RecoveryRunner._fencing_read",
                ("BookieAnswer(Answer.UNKNOWN", "BookieAnswer(Answer.PROVED_NO"),
            ),
        ),
        plan=focused("ambush", "refuse", "kill_bookie", "isolate", **THREE),
    ),
    Mutation(
        "degraded-below-the-ack-quorum",
        "A log that falls back to fewer bookies keeps its ack quorum: an ack means so many durable copies "
        "whatever happens.",
        (
            edit(
                "dlog.core.degraded:fallback_quorum",
                ("live_count < wanted.ack", "live_count < 1"),
                ("ack=wanted.ack", "ack=min(wanted.ack, live_count)"),
            ),
        ),
        plan=focused("kill_bookie", "kill_many", **THREE, degraded=True, rotation_age_s=0.7),
    ),
    Mutation(
        "fast-writer-keeps-its-lac",
        "With fast visibility a writer that has nothing more to add stores its LAC, so that readers follow.",
        (
            edit(
                "ledger.core.append:AppendMachine.publish_lac",
                ("if self.visible >= self.lac:", "if not self._strict or self.visible >= self.lac:"),
            ),
        ),
        plan=focused(**THREE, writers=1, fast=True, rotation_age_s=1000.0),
    ),
    Mutation(
        "closing-fast-writer-keeps-its-lac",
        "A fast writer stores its LAC also while it waits for the metadata store to close its ledger.",
        (edit("ledger.writing.write_handle:WriteHandle._tick", ("if self._fast:\n", "if False:\n")),),
        plan=focused(
            "metadata_partition",
            "metadata_unavailable",
            **THREE,
            writers=2,
            fast=True,
            hold_s=2.0,
            cancellers=1,
        ),
    ),
)
