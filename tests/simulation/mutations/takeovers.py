"""Taking a log over, and the compare-and-set of its record."""

from __future__ import annotations

from tests.helpers.mutations.mutation import (
    ALONE,
    SWEPT,
    THREE,
    Mutation,
    focused,
)
from tests.helpers.mutations.planting import edit

# Fencing less than the rules say also means that seals are missing, which sound code asserts.
_MISSING_SEALS_ARE_FINE = (
    edit(
        "dlog.core.metadata_changes:_fenced",
        ("if listed.seal is None:", "if listed.seal is None and listed.ledger_id in seals:"),
    ),
)
_UNKNOWN = "except MetadataOutcomeUnknownError:\n            in_doubt = True"

MUTATIONS = (
    Mutation(
        "takeover-without-fence",  # docs/pitfalls.md#only-the-last-ledger-fenced
        "A takeover fences every unsealed ledger before it lists its own.",
        (
            *_MISSING_SEALS_ARE_FINE,
            edit(
                "dlog.core.takeover:Takeover.on_record",
                (
                    "return [FenceLedgers(self._to_fence(read.value))]",
                    "if self._end is None and self._own is None:\n"
                    "        return [CreateLedger(read.value.epoch + 1)]\n"
                    "    return [FenceLedgers(self._to_fence(read.value))]",
                ),
            ),
        ),
    ),
    Mutation(
        "takeover-fences-only-the-last-ledger",  # docs/pitfalls.md#only-the-last-ledger-fenced
        "A takeover fences the last two ledgers: while one replaces the other both have a writer.",
        (
            *_MISSING_SEALS_ARE_FINE,
            edit(
                "dlog.core.takeover:ledgers_to_fence",
                ("record.ledger_ids[-2:]", "record.ledger_ids[-1:]"),
                ("if one.seal is None or one.ledger_id in last_two", "if one.ledger_id in last_two"),
            ),
        ),
    ),
    Mutation(
        "takeover-listed-before-the-fence",  # docs/pitfalls.md#only-the-last-ledger-fenced
        "The new ledger is listed after the old ones are fenced, not before.",
        (
            *_MISSING_SEALS_ARE_FINE,
            edit(
                "dlog.core.takeover:Takeover.on_record",
                (
                    "return [FenceLedgers(self._to_fence(read.value))]",
                    "if self._end is None and self._own is None:\n"
                    "        return [CreateLedger(read.value.epoch + 1)]\n"
                    "    return [FenceLedgers(self._to_fence(read.value))]",
                ),
            ),
            edit(
                "dlog.write.takeover_runner:TakeoverRunner._run",
                (
                    "case TakenOver(record, version):",
                    "case TakenOver(record, version):\n"
                    "                unsealed = [one.ledger_id for one in record.ledgers[:-1] if one.seal is None]\n"
                    "                await recover_ledgers(self._ledgers, unsealed, {}, self._config.password)",
                ),
            ),
        ),
    ),
    Mutation(
        "takeover-by-blind-put",  # docs/pitfalls.md#record-changed-after-the-fence
        "The record is set by compare-and-set at the version that was read before the fence.",
        (
            edit(
                "dlog.write.takeover_runner:TakeoverRunner._do",
                (
                    "self._logs.compare_and_set(self._ref, record, version)",
                    "self._logs.compare_and_set(self._ref, record, (await self._logs.read(self._ref)).version)",
                ),
            ),
        ),
    ),
    Mutation(
        "takeover-again-without-fence",  # docs/pitfalls.md#record-changed-after-the-fence
        "A refused candidate fences anew: the tail may have changed since it looked.",
        (
            *_MISSING_SEALS_ARE_FINE,
            edit(
                "dlog.core.takeover:Takeover.on_record",
                (
                    "return [FenceLedgers(self._to_fence(read.value))]",
                    "if self._end is None and self._own is None and self._rounds and self._seals:\n"
                    "        return [CreateLedger(read.value.epoch + 1)]\n"
                    "    return [FenceLedgers(self._to_fence(read.value))]",
                ),
            ),
        ),
    ),
    Mutation(
        "candidate-gives-up-too-soon",
        "A candidate refused at an unchanged epoch starts over: else a rotation leaves no writer at all.",
        (
            edit(
                "dlog.core.metadata_update:takeover_verdict",
                ("return StartOver(found)", "return Lost(found, may_delete_new=answer.definite)"),
            ),
        ),
        plan=focused("kill_client", **THREE, writers=3, rotation_age_s=0.7),
    ),
    Mutation(
        "takeover-keeps-the-epoch",
        "Every takeover raises the epoch by one.",
        (
            edit(
                "dlog.core.metadata_changes:taken_over",
                (
                    "        epoch=record.epoch + 1,\n        owner=owner",
                    "        epoch=record.epoch,\n        owner=owner",
                ),
            ),
        ),
    ),
    Mutation(
        "lost-answer-taken-for-refusal",  # docs/pitfalls.md#lost-answer-to-a-compare-and-set
        "A compare-and-set whose answer was lost may have been made: nothing may be deleted on its strength.",
        (
            edit(
                "dlog.metadata.store:LogMetadataStore._set",
                (
                    _UNKNOWN,
                    "except MetadataOutcomeUnknownError:\n"
                    "            return NotOurs(await self._until_available(self.read_or_none, ref), definite=True)",
                ),
            ),
        ),
        plan=focused("metadata_answer_lost", "kill_client", **THREE, writers=3, rotation_age_s=0.7),
    ),
    Mutation(
        "lost-answer-taken-for-success",  # docs/pitfalls.md#lost-answer-to-a-compare-and-set
        "A compare-and-set whose answer was lost may not have been made.",
        (
            edit(
                "dlog.metadata.store:LogMetadataStore._set",
                (
                    _UNKNOWN,
                    "except MetadataOutcomeUnknownError:\n            return Applied(record, version + 1)",
                ),
            ),
        ),
        plan=focused("metadata_request_lost", "kill_client", **THREE, writers=3, rotation_age_s=0.7),
    ),
    Mutation(
        "refused-retry-taken-for-refusal",  # docs/pitfalls.md#lost-answer-to-a-compare-and-set
        "A refusal of a repeated compare-and-set may come from its own first try.",
        (
            edit(
                "dlog.metadata.store:LogMetadataStore._set",
                (
                    "if not in_doubt:\n                return NotOurs(",
                    "if True:\n                return NotOurs(",
                ),
            ),
        ),
        plan=focused("metadata_request_late", "kill_client", **THREE, writers=3, rotation_age_s=0.7),
    ),
    Mutation(
        "deposed-writer-rebases",  # docs/pitfalls.md#lease-taken-for-safety
        "A refused writer looks at epoch, owner and tail: if they have changed it has lost the log for good.",
        (
            edit(
                "dlog.core.metadata_update:owner_verdict",
                ("if found is None or not same_ownership(before, found.value):", "if found is None:"),
                ("return Deposed(found.value)", "return Rebase(found)"),
            ),
        ),
        plan=focused("pause_client", "metadata_partition", "isolate", **THREE, writers=3, rotation_age_s=0.7),
    ),
    Mutation(
        "zombie-writes-blindly",  # docs/pitfalls.md#paused-writer, #record-changed-after-the-fence
        "A rotation sets the record at the version that it knows: one that re-reads the version overwrites a "
        "takeover.",
        (
            edit(
                "dlog.write.rotation_runner:RotationRunner._write",
                (
                    "self._logs.compare_and_set(self._ref, record, version)",
                    "self._logs.compare_and_set(self._ref, record, (await self._logs.read(self._ref)).version)",
                ),
            ),
        ),
    ),
    Mutation(
        "rebase-keeps-a-barred-id",  # docs/pitfalls.md#ledger-id-given-out-twice, #write-before-the-list
        "A ledger enters the list above every id that was ever listed or barred; a lower one is replaced.",
        (
            edit("dlog.core.metadata_update:may_enter_list", ("ledger_id > record.last_ledger_id", "True")),
            edit(
                "dlog.core.metadata_changes:_assert_may_enter",
                ("assert new.ledger_id > record.last_ledger_id", "assert True"),
            ),
        ),
        plan=focused(**SWEPT),
    ),
    Mutation(
        "seal-without-fence",
        "To seal a log is to take it over: without the fence its writer goes on behind the end.",
        (
            *_MISSING_SEALS_ARE_FINE,
            edit(
                "dlog.core.takeover:Takeover.on_record",
                (
                    "return [FenceLedgers(self._to_fence(read.value))]",
                    "return [FenceLedgers(() if self._end is LogState.SEALED else self._to_fence(read.value))]",
                ),
            ),
        ),
        plan=focused(**THREE, other_log=True),
    ),
    Mutation(
        "delete-without-fence",
        "To delete a log is to take it over: without the fence its writer is acknowledged into nothing.",
        (
            *_MISSING_SEALS_ARE_FINE,
            edit(
                "dlog.core.takeover:Takeover.on_record",
                (
                    "return [FenceLedgers(self._to_fence(read.value))]",
                    "return [FenceLedgers(() if self._end is LogState.DELETING else self._to_fence(read.value))]",
                ),
            ),
        ),
        plan=focused(
            "watch_late",
            "watch_lost",
            **THREE,
            other_log=True,
            writers=1,
            readers=1,
            append_every_s=1.0,
            chaos_s=30.0,
        ),
    ),
    Mutation(
        "log-created-anew-under-its-old-path",  # docs/pitfalls.md#ledger-id-given-out-twice
        "Each life of a log has a path of its own, so that a version of an earlier life never matches.",
        (
            edit(
                "dlog.core.metadata_keys:record_key",
                ("/{log_uuid}/record", "/record"),
            ),
        ),
        plan={"other_log": True},
    ),
    Mutation(
        "sweep-by-age",  # docs/pitfalls.md#write-before-the-list
        "An unlisted ledger is deleted when it can never be listed any more; that it is old proves nothing.",
        (
            edit(
                "dlog.core.orphans:verdict_of",
                (
                    "return Verdict.NEVER_LISTED if ledger_id <= record.last_ledger_id else Verdict.BAR_FIRST",
                    "return Verdict.NEVER_LISTED",
                ),
            ),
        ),
        plan=focused(**SWEPT),
    ),
    Mutation(
        "sweep-of-another-roots-ledgers",
        "The sweep of one root deletes no ledger of a log under another one, be it empty.",
        (
            edit(
                "dlog.metadata.orphan_sweep:OrphanSweep._sweep",
                ("origin.root not in (None, self._logs.root) or ", ""),
            ),
        ),
        plan=focused(**THREE, bookies=3, writers=1, readers=1, neighbours=2, chaos_s=16.0),
    ),
    Mutation(
        "sweep-takes-absence-for-proof",
        "That one root has no record of a log proves nothing: another may have, and acknowledged entries with it.",
        (
            edit(
                "dlog.metadata.orphan_sweep:OrphanSweep._sweep",
                ("origin.root not in (None, self._logs.root) or ", ""),
            ),
            edit(
                "dlog.metadata.orphan_sweep:OrphanSweep._delete_if_empty",
                ("if handle.last_readable >= 0:", "if False:"),
            ),
            edit(
                "dlog.metadata.orphan_sweep:OrphanSweep._is_orphan",
                ("return absence_is_final(origin, None if name is None else name.value)", "return True"),
            ),
        ),
        plan=focused(**THREE, bookies=3, writers=1, readers=1, neighbours=2, chaos_s=16.0),
    ),
    Mutation(
        "shrink-drops-an-unsealed-ledger",  # docs/pitfalls.md#trim-under-a-reader
        "Shrink drops ledgers whose seal the record holds, no others: no takeover would fence the others any more.",
        (
            edit(
                "dlog.ledger_list.ledger_list:LedgerList.trim_cut",
                ("kept = await self.newest_kept()", "kept = record.ledgers[-1].ledger_id"),
            ),
            edit(
                "dlog.core.metadata_changes:shrunk",
                ("assert all(one.seal is not None for one in below)", "assert True"),
            ),
        ),
        # Ledgers that end when the administrator says so: some are then longer than all before them together.
        plan=focused(
            **THREE,
            **ALONE,
            readers=1,
            shrinks=True,
            polite=0.5,
            retains=False,
            rotation_entries=500,
            rotation_age_s=30.0,
            append_every_s=0.2,
            chaos_s=40.0,
        ),
    ),
    Mutation(
        "shrink-hides-one-entry-more",
        "Shrink makes invisible what is below the id that it was called with, and that message stays.",
        (
            edit(
                "dlog.core.metadata_changes:shrunk",
                (
                    "max(record.trim_before, before)",
                    "max(record.trim_before, before._replace(entry_id=before.entry_id + 1))",
                ),
            ),
        ),
        plan=focused(**THREE, writers=1, shrinks=True),
    ),
    Mutation(
        "shrink-by-blind-put",  # docs/pitfalls.md#trim-under-a-reader
        "Shrink compares and sets: one that only sets undoes what the writer did in the meantime.",
        (
            edit(
                "dlog.admin:LogAdmin.shrink_ref",
                (
                    "self._logs.compare_and_set(ref, changed, read.version, limit_s",
                    "self._logs.compare_and_set(ref, changed, (await self._logs.read(ref)).version, limit_s",
                ),
            ),
        ),
        plan=focused(
            **THREE,
            writers=4,
            shrinks=True,
            rotation_age_s=0.35,
            append_every_s=0.2,
            chaos_s=16.0,
            store_s_max=0.5,
        ),
    ),
)
