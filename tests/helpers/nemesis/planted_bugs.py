"""Bugs for the nemesis' own test: each is planted into its writer or reader processes, and the run must refuse it."""

from __future__ import annotations

from tests.helpers.mutations.planting import Edit, edit

PLANTED_BUGS: dict[str, tuple[Edit, ...]] = {
    "reader-starts-late": (
        edit(
            "dlog.read.reader:Reader._begin",
            (
                "return await places.start(self._wanted)",
                "start = await places.start(self._wanted)\n        "
                "return start._replace(entry_id=start.entry_id + 1)",
            ),
        ),
    ),
    "acked-when-sent": (
        edit(
            "ledger.core.append:AppendMachine.done_through",
            ("self.visible if self._strict else self.lac", "self.sent_through"),
        ),
    ),
    "committed-resolved-as-absent": (
        edit(
            "dlog.read.resolution:_in_ledger",
            ("return Resolution.COMMITTED  #", "return Resolution.ABSENT  #"),
            ("return Resolution.COMMITTED if", "return Resolution.ABSENT if"),
        ),
    ),
    "last-of-a-batch-dropped": (
        edit(
            "dlog.write.append_queue:AppendQueue.append_many",
            ("Batch.of(self.limits, payloads,", "Batch.of(self.limits, list(payloads)[:-1],"),
        ),
    ),
    "trims-one-entry-more": (
        edit(
            "dlog.core.metadata_changes:shrunk",
            (
                "max(record.trim_before, before)",
                "max(record.trim_before, before._replace(entry_id=before.entry_id + 1))",
            ),
        ),
    ),
}
