"""Append times, and what seals and pages record of their ledgers."""

from __future__ import annotations

from tests.helpers.mutations.mutation import THREE, Mutation, focused
from tests.helpers.mutations.planting import edit
from tests.simulation.mutations.pages import LONG, SHORT

_BATCHES = focused(**THREE, more_ways=True, rotation_entries=5)
"""Ledgers with more messages than entries."""

MUTATIONS = (
    Mutation(
        "append-time-is-the-clocks",
        "An entry's time is not below that of the one before it, also when the writer's clock has been set back.",
        (
            edit(
                "dlog.write.append_queue:AppendQueue._send",
                ("if now_us < self._last_append_us:", "if False:"),
            ),
        ),
        plan=focused("clock_jump", **THREE),
    ),
    Mutation(
        "append-times-begin-anew",
        "A writer continues at or after the last time recorded in the log: its clock may be behind its predecessor's.",
        (
            edit(
                "dlog.writer_opening:WriterOpening._take_over",
                ("last_append_us=last_append_us(takeover.record),", "last_append_us=0,"),
            ),
        ),
        plan=focused("clock_jump", **THREE, writers=3),
    ),
    Mutation(
        "seal-ends-with-its-first-time",
        "A seal's last append time is that of the last entry: a time seek and retention pass over what looks older.",
        (
            edit(
                "dlog.write.active_ledger:ActiveLedger.seal_facts",
                ("last_append_us=self._last_append_us,", "last_append_us=self._first_append_us,"),
            ),
        ),
        plan=focused(**THREE, rotation_entries=5),
    ),
    Mutation(
        "seal-counts-entries",
        "A seal counts messages, of which an entry may have many.",
        (
            edit(
                "dlog.write.active_ledger:ActiveLedger.seal_facts",
                ("message_count=self._messages_acked,", "message_count=metadata.last_entry + 1,"),
            ),
        ),
        plan=_BATCHES,
    ),
    Mutation(
        "recovered-ledger-counted-without-its-last-entry",
        "The messages of a recovered ledger are those before its last entry and those in it.",
        (
            edit(
                "dlog.write.ledger_recovery:_messages_through",
                ("return last.messages_before + last.count", "return last.messages_before"),
            ),
        ),
        plan=focused("kill_client", **THREE, writers=2),
    ),
    Mutation(
        "messages-before-lacks-those-in-flight",
        "An entry counts the messages of all entries before it, acknowledged or not.",
        (
            edit(
                "dlog.write.append_queue:AppendQueue._send",
                (
                    "messages_before=active_ledger.messages_submitted,",
                    "messages_before=active_ledger._messages_acked,",
                ),
            ),
        ),
        plan=focused(**THREE, append_every_s=0.01),
    ),
    Mutation(
        "page-ends-with-its-oldest-ledger",
        "A page's last append time is that of its newest ledger: a time seek passes over pages that look older.",
        (edit("dlog.ledger_list.page:_newest", ("max(times,", "min(times,")),),
        given=SHORT,
        plan=focused(**THREE, **LONG, chaos_s=16.0),
    ),
)
