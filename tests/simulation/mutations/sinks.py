"""Bugs of sinks: batches that are in the log twice, in part, or not at all."""

from __future__ import annotations

from tests.helpers.mutations.mutation import Mutation, focused
from tests.helpers.mutations.planting import edit

_SHARED = {"writers": 1, "readers": 1, "sinks": 3}

MUTATIONS = (
    Mutation(
        "batch-is-published-although-its-mark-is-there",
        "A batch at or below its sink's mark was published, and is not published again.",
        (
            edit(
                "dlog.core.publication:publication",
                ("if listed or was_published(record, batch):", "if listed:"),
            ),
        ),
        plan=focused("cut", "reset", **_SHARED),
    ),
    Mutation(
        "batch-of-an-earlier-epoch-is-published",
        "A batch is published only in the epoch in which its ledgers were written, above every ledger of the list.",
        (
            edit(
                "dlog.core.publication:publication",
                ("if not _is_owner(record, ours):", "if False:"),
                ("if not all(may_enter_list(record, one.ledger_id) for one in staged):", "if False:"),
            ),
        ),
        plan=focused("pause_client", "metadata_partition", **_SHARED),
    ),
    Mutation(
        "aborted-batch-is-deleted-although-it-is-listed",
        "A driver deletes ledgers of a batch only after a record has shown that it does not list them.",
        (
            edit(
                "dlog.sink.publishing:discard",
                ("named = named_in(read.value, ledger_ids)", "named = frozenset()"),
            ),
        ),
        plan=focused("cut", "reset", writers=1, readers=1, sinks=2, store_s_max=0.02),
    ),
)
