"""Bugs of inspections: they call lost what is there, leave something out, or change what they look at."""

from __future__ import annotations

from tests.helpers.mutations.mutation import QUIET, THREE, Mutation, focused
from tests.helpers.mutations.planting import edit

_INSPECTED = {**THREE, **QUIET, "inspectors": 2, "sinks": 0, "operators": 0}

MUTATIONS = (
    Mutation(
        "silent-bookie-counts-as-one-without-copies",
        "What a bookie has that does not respond is not known: its copies are not lost.",
        (
            edit(
                "ledger.inspection.copies:judge",
                (
                    "intact, unknown = states[CopyState.INTACT], states[CopyState.UNREACHABLE]",
                    "intact, unknown = states[CopyState.INTACT], 0",
                ),
            ),
        ),
        plan=focused("cut", "pause_bookie", **_INSPECTED),
    ),
    Mutation(
        "verify-counts-entries-in-flight",
        "An entry above the last one that is confirmed may have no copy yet: it is not part of the log.",
        (
            edit(
                "dlog.inspection.verify:_copies_of",
                (
                    "handle.metadata, handle.last_readable, on",
                    "handle.metadata, handle.last_readable + 1, on",
                ),
            ),
        ),
        plan=focused(**_INSPECTED),
    ),
    Mutation(
        "verify-opens-with-recovery",
        "An inspection fences nothing: the log's owner goes on.",
        (
            edit(
                "dlog.inspection.verify:_copies_of",
                ("client.ledgers.open(", "client.ledgers.open_with_recovery("),
            ),
        ),
        plan=focused(**_INSPECTED),
    ),
    Mutation(
        "deleted-ledger-counts-as-lost",
        "A ledger that is not there any more was trimmed and deleted, unless the log still lists it.",
        (
            edit(
                "dlog.inspection.verify:verify",
                ("await listed_ledger(client, log, listed.ledger_id)", "listed"),
            ),
        ),
        plan=focused(**{**_INSPECTED, "shrinks": True, "other_log": True, "chaos_s": 20.0}),
    ),
    Mutation(
        "explain-hides-the-newest-entry",
        "A message that is committed is shown, that of the last readable entry too.",
        (
            edit(
                "dlog.inspection.explain:_in_ledger",
                ("if entry_id <= handle.last_readable:", "if entry_id < handle.last_readable:"),
            ),
        ),
        plan=focused(**_INSPECTED),
    ),
)
