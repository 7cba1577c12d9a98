"""The mistakes of which kept seeds tell, as they once were in the code: planted again, their runs fail again."""

from __future__ import annotations

from tests.helpers.mutations.planting import Edit, edit

FIXED_BUGS: dict[str, tuple[Edit, ...]] = {
    "cancelled-collection": (
        edit(
            "bookie_server.disk.durable:until_durable",
            ("if not outcome.done():\n            outcome.set_result(error)", "outcome.set_result(error)"),
        ),
    ),
    "closed-room": (
        edit(
            "bookie_server.storage.maintenance:StorageMaintenance.on_journal_progress",
            ("if self._closed:\n        return\n    if full", "if full"),
        ),
    ),
    "dead-log-in-a-failed-directory": (
        edit(
            "dlog.testing.swarm.garbage:dead_files_are_removed",
            ("if _left_over(bookie, config))", "if False)"),
        ),
    ),
    "doubtful-list": (
        edit("bookie_server.registration:Presence._follow", ("            self._published = None\n", "")),
    ),
    "fence-lost-in-limbo": (
        edit("bookie_server.storage.ledger_storage:LedgerStorage.restore_ledger", ("if ended:", "if False:")),
        edit("dlog.testing.bookies:SimulatedBookie.refuses_adds_to", ("or state.limbo", "")),
    ),
    "forgotten-read-ahead": (
        edit("bookie_server.storage.reads:StorageReads._load_next", ("in blocks:", "in blocks[:1]:")),
    ),
    "late-registration": (
        edit(
            "dlog.testing.metadata.session:Session.write_in_order",
            ("in_order=True", "in_order=False"),
        ),
    ),
    "lost-ledger-that-was-not-counted": (
        edit(
            "dlog.read.tail:_start_in_list",
            ("held = listed.seal.last_entry + 1", "held = missing"),
        ),
    ),
    "lost-page-of-trimmed-ledgers": (
        edit(
            "dlog.read.time_seek:_in_list",
            (
                "start, is_after_lost = ledger_list.record.trim_before.ledger_id, False",
                "start, is_after_lost = 0, False",
            ),
        ),
    ),
    "member-in-limbo": (
        edit(
            "ledger.inspection.copy_audit:_Reading._take",
            ("answer.status in _HAS_NO_COPY", "answer.status is Status.EIO"),
        ),
    ),
    "overtaken-look": (
        edit("ledger.client:LedgerClient._read_bookies", ("if number > self._read_adopted:", "if True:")),
    ),
    "removal-cut-off-by-the-stop": (
        edit(
            "dlog.testing.swarm.garbage:dead_files_are_removed",
            ("if _left_over(bookie, config))", "if False)"),
        ),
    ),
}
"""By the names of the kept seeds. Where one is missing, the code around its mistake is no longer what it was, or the
seed goes another way than once. Some of these moments are so narrow that only one seed in a hundred meets them: one
that does so no more may go from here. So did late-close and swept-before-listing, whose
planted bugs late-close-counts and rebase-keeps-a-barred-id are searched for; and checkpoint-tried-again, since a
checkpoint that is tried again after a failure loses nothing any more. tests/crash/test_sync_errors.py forbids it still.
"""
