"""Bugs of the ledger list in pages: what moves into them, when they are stored and removed, who walks them."""

from __future__ import annotations

from tests.helpers.mutations.mutation import Mutation, focused
from tests.helpers.mutations.planting import edit
from tests.simulation.mutations.rotations import FORGETFUL, OWNER_ASLEEP

LONG = {"rotation_entries": 5, "rotation_age_s": 0.35, "append_every_s": 0.05}
"""Many ledgers."""
SHORT = (
    edit(
        "dlog.metadata.store:LogMetadataStore._compare_and_set",
        ('SHORT_SIZES if buggify("metadata.short-list") else self.list_sizes', "SHORT_SIZES"),
    ),
)
"""Three of them stay in the record."""

MUTATIONS = (
    Mutation(
        "page-stored-after-its-record",
        "A page is stored before the record refers to it: a crash in between must not lose its ledgers.",
        (
            edit(
                "dlog.metadata.store:LogMetadataStore._compare_and_set",
                (
                    "await self._pages.write(ref, pages)\n    answer = await self._set(ref, record, version)",
                    "answer = await self._set(ref, record, version)\n    await self._pages.write(ref, pages)",
                ),
            ),
        ),
        given=SHORT,
        plan=focused("kill_client", "timely", **LONG, writers=3, chaos_s=16.0),
    ),
    Mutation(
        "page-removed-before-its-change-is-decided",
        "The pages of a change that may have been made stay: only a definite refusal proves that no record has them.",
        (
            edit(
                "dlog.metadata.store:LogMetadataStore._compare_and_set",
                (
                    "if isinstance(answer, NotOurs) and answer.definite:",
                    "if isinstance(answer, NotOurs):",
                ),
            ),
        ),
        given=SHORT,
        plan=focused("metadata_answer_lost", "metadata_request_late", **LONG, writers=4, chaos_s=20.0),
    ),
    Mutation(
        "unused-pages-removed-too-early",
        "A page that a record does not refer to yet may be that of a change on its way, sent at the record's version.",
        (edit("dlog.metadata.history_pages:_is_unused", ("parts[2] >= version", "False")),),
        given=(
            *SHORT,
            edit(
                "dlog.metadata.store:LogMetadataStore._set",
                ('linger("metadata.slow-record-change")', "asyncio.sleep(0.3)"),
                ('linger("metadata.slow-record-answer")', "asyncio.sleep(0.3)"),
            ),
        ),
        plan=focused(**LONG, writers=1, term_s=15.0, shrinks=True, chaos_s=20.0),
    ),
    Mutation(
        "trim-takes-one-ledger-more-of-a-page",
        "A trim takes ledgers out of the list that are completely below its position, and no others.",
        (
            edit(
                "dlog.core.metadata_changes:shrunk",
                (
                    "max(record.first_id, cut.floor)",
                    "max(record.first_id, min(cut.floor + 1, record.ledgers[0].ledger_id))",
                ),
            ),
        ),
        given=SHORT,
        plan=focused(**LONG, writers=1, shrinks=True, chaos_s=16.0),
    ),
    Mutation(
        "listed-ledgers-in-pages-are-deleted",
        "Of the ledgers in pages only those that have left the list are deleted.",
        (
            edit(
                "dlog.ledger_list.ledger_list:LedgerList.walk_deletable",
                (
                    "if listed.ledger_id >= self._record.first_id:",
                    "if listed.ledger_id >= self._record.last_ledger_id:",
                ),
            ),
            edit(
                "dlog.metadata.deletion:Deletion._delete_some_in_pages",
                ("if not record.pages:", "if not record.pages or record.deleted_below >= record.first_id:"),
            ),
        ),
        given=SHORT,
        plan=focused(**LONG, writers=1, shrinks=True, chaos_s=16.0),
    ),
    Mutation(
        "ledger-in-a-page-is-deleted-within-its-grace",
        "A ledger whose writer may be paused is kept for the log's grace, in a page as in the record.",
        (
            edit(
                "dlog.metadata.deletion:Deletion._delete_some_in_pages",
                (
                    "listed.keep_until_us > now_us and not await self._needs_no_grace(listed.ledger_id)",
                    "False",
                ),
            ),
        ),
        given=(*FORGETFUL, *SHORT),
        plan=focused(
            **{
                **OWNER_ASLEEP,
                **LONG,
                "append_every_s": 0.02,
                "graces_s": (),
            }
        ),
    ),
    Mutation(
        "last-ledger-of-a-page-is-passed-over",
        "A reader whose next ledger is the last one of a page reads it.",
        (
            edit(
                "dlog.ledger_list.ledger_list:LedgerList._part_from",
                ("bisect_left(pages, wanted, key=_last_id)", "bisect_right(pages, wanted, key=_last_id)"),
            ),
        ),
        given=SHORT,
        plan=focused(**LONG, writers=1, chaos_s=16.0),
    ),
    Mutation(
        "lost-page-is-passed-in-silence",
        "A reader that passes a page that it cannot read reports what the page may list as a gap.",
        (
            edit(
                "dlog.core.tailing:Tailing._pass_page",
                ("self._gaps.append(Gap(first, resume_at, GapReason.DATA_LOSS))", "pass"),
            ),
        ),
        plan=focused(**LONG, writers=1, short_lists=True),
    ),
    Mutation(
        "sweep-takes-a-ledger-in-a-page-for-an-orphan",
        "The sweep knows the ledgers in pages: they are listed, or wait for their deletion.",
        (
            edit(
                "dlog.core.orphans:verdict_of",
                ("in_page or record.find_recent", "record.find_recent"),
            ),
            edit(
                "dlog.metadata.orphan_sweep:OrphanSweep._delete_if_empty",
                ("if handle.last_readable >= 0:", "if False:"),
            ),
        ),
        given=SHORT,
        plan=focused(**LONG, writers=1, garbage=True, chaos_s=16.0),
    ),
)
