"""Bugs of producers: which of their messages count as appended."""

from __future__ import annotations

from tests.helpers.mutations.mutation import THREE, Mutation, focused
from tests.helpers.mutations.planting import edit

_SHARED = {"writers": 1, "readers": 1, "producers": 3}

MUTATIONS = (
    Mutation(
        "producers-not-read-from-the-snapshot",
        "A takeover knows the producers from the newest snapshot, not only from the entries after it.",
        (
            edit(
                "dlog.write.producer_recovery:_snapshot",
                ("return decode_snapshot(place.snapshot)", "return {}"),
            ),
        ),
        plan=focused(**_SHARED),
    ),
    Mutation(
        "given-up-ledger-loses-its-producers",
        "A ledger that is given up and exists is not lost: its producers count, as its messages do.",
        (
            edit(
                "dlog.write.producer_recovery:find_producers",
                (
                    "if one.seal is None or one.seal.last_entry < 0:",
                    "if one.seal is None or one.seal.last_entry < 0 or one.ledger_id in given_up:",
                ),
            ),
        ),
        plan=focused(**_SHARED),
    ),
    Mutation(
        "entries-after-the-snapshot-are-not-read",
        "A snapshot is older than the end of its ledger: the entries from it on count, too.",
        (
            edit(
                "dlog.write.producer_recovery:read_producers",
                (
                    "if envelope.producer is not None:",
                    "if envelope.producer is not None and entry.entry_id == first:",
                ),
            ),
        ),
        plan=focused(**_SHARED),
    ),
    Mutation(
        "duplicate-answered-before-its-original",
        "A duplicate is acknowledged only when its original is.",
        (
            edit(
                "dlog.write.producer_registry:_answer_duplicate",
                (
                    "original.follow(waiter, first_sequence, last_sequence)",
                    "waiter.set_result(Appended(last_sequence, None, new=0))",
                ),
            ),
        ),
        plan=focused("kill_client", **_SHARED),
    ),
    Mutation(
        "appends-that-are-sent-again-count-before",
        "What was in flight in a failed ledger, and is not in it, is not in the snapshot of the next one either.",
        (
            edit(
                "dlog.write.producer_registry:ProducerRegistry.take_back",
                ("for entry in reversed(entries):", "for entry in ():"),
            ),
        ),
        plan=focused("cut", "kill_bookie", "kill_client", **_SHARED, **THREE, sync_s_max=0.2),
    ),
    Mutation(
        "entry-sent-again-keeps-its-snapshot-place",
        "An entry that is sent again, in another ledger, says where the newest snapshot of that ledger is.",
        (
            edit(
                "dlog.format.entry:moved_entry",
                ("producers=producers,", "producers=envelope.producers,"),
            ),
        ),
        plan=focused("cut", "kill_bookie", "kill_client", **_SHARED, **THREE, sync_s_max=0.2),
    ),
    Mutation(
        "cancelled-append-of-a-producer-counts",
        "An append that was cancelled before it was sent does not count, and those after it are rejected.",
        (
            edit(
                "dlog.write.append_queue:AppendQueue._leave_out",
                (
                    "for failed in self.producers.withdraw(pending_entry):",
                    "pending_entry.producer.pending.remove(pending_entry)\n        for failed in ():",
                ),
            ),
        ),
        plan=focused("cut", "reset", **_SHARED),
    ),
    Mutation(
        "append-given-up-before-it-is-accepted-is-forgotten",
        "An append that is cancelled while it waits for buffer space does not count, and those after it are rejected.",
        (
            edit(
                "dlog.write.append_queue:AppendQueue.append_sequenced",
                (
                    "self.producers.leave_out(producer_id, first_sequence, first_sequence + batch.count - 1)",
                    "pass",
                ),
            ),
        ),
        plan=focused("cut", "reset", **_SHARED, tight_buffer=True),
    ),
    Mutation(
        "append-cancelled-before-its-first-step-is-forgotten",
        "An append that is cancelled before its first step does not count, and those after it are rejected.",
        (
            edit(
                "dlog.write.producer:LogProducer._leave_out",
                (
                    "self._queue.producers.leave_out(self._id, *self._made.pop(number))",
                    "del self._made[number]",
                ),
            ),
        ),
        plan=focused("cut", "reset", **_SHARED, cancellers=1),
    ),
    Mutation(
        "call-that-has-not-begun-is-passed",
        "A call that is made and begins later is there, or those made after it are rejected.",
        (edit("dlog.write.producer:LogProducer._submit", ("if sequences[0] < first_sequence", "if False")),),
        plan=focused("cut", "reset", **_SHARED),
    ),
    Mutation(
        "only-the-first-message-of-a-late-call-is-missing",
        "All messages of a call that has not begun are missing, also once another call has appended the first ones.",
        (
            edit(
                "dlog.write.producer:LogProducer._submit",
                ("[sequences for _, sequences", "[(sequences[0], sequences[0]) for _, sequences"),
            ),
        ),
        plan=focused("cut", "reset", **_SHARED),
    ),
    Mutation(
        "trim-drops-what-the-producers-have-appended",
        "A trim keeps the newest ledger with entries, which says what the producers have appended.",
        (
            edit(
                "dlog.ledger_list.ledger_list:LedgerList.newest_kept",
                ("if listed.seal is not None and not listed.known_empty:", "if False:"),
            ),
        ),
        plan=focused(**_SHARED),
    ),
    Mutation(
        "unread-producers-taken-for-none",
        "A writer that cannot read what the producers have appended does not take them for new ones.",
        (
            edit(
                "dlog.writer_opening:WriterOpening._producers",
                ("        return None\n", "        return {}\n"),
            ),
        ),
        plan=focused("read_error", "cut", "kill_bookie", **_SHARED),
    ),
)
