"""What is on a bookie's disk when it says so: journal, entry logs, index, log mark."""

from __future__ import annotations

from tests.helpers.mutations.mutation import (
    AMBUSHED,
    COMPACTED,
    REFUTED_SYNCS,
    SLEEP,
    SLOW_DISKS,
    THREE,
    Mutation,
    focused,
)
from tests.helpers.mutations.planting import edit

MUTATIONS = (
    Mutation(
        "journal-not-synced",  # docs/pitfalls.md#ack-before-the-sync
        "An add is acknowledged after a sync of the journal.",
        (
            edit(
                "bookie_server.journal.files:JournalFiles._write_group",
                ("self._segment.file.sync()", "pass"),
            ),
        ),
    ),
    Mutation(
        "journal-synced-before-the-write",  # docs/pitfalls.md#ack-before-the-sync
        "A sync covers what was written before it began.",
        (
            edit(
                "bookie_server.journal.files:JournalFiles._write_group",
                (
                    "end = self._segment.file.write_uncached(start, parts)",
                    "self._segment.file.sync()\n        end = self._segment.file.write_uncached(start, parts)",
                ),
                ("may be acknowledged.\n        self._segment.file.sync()", "may be acknowledged."),
            ),
        ),
        plan=focused("power_cut", "kill_many", **THREE, fast=True, append_every_s=0.3),
    ),
    Mutation(
        "failed-sync-tried-again",  # docs/pitfalls.md#failed-sync-retried
        "After a failed sync the kernel may hold lost pages as clean: a second sync succeeds and proves nothing.",
        (
            edit(
                "bookie_server.journal.files:JournalFiles._write_group",
                (
                    "may be acknowledged.\n        self._segment.file.sync()",
                    "may be acknowledged.\n"
                    "        try:\n"
                    "            self._segment.file.sync()\n"
                    "        except DiskFailedError:\n"
                    "            self._segment.file.sync()",
                ),
            ),
        ),
        plan=focused("sync_error", "power_cut", fault_every_s=0.1, **THREE),
    ),
    Mutation(
        "journal-name-not-durable",  # docs/pitfalls.md#name-or-mark-not-durable
        "The name of a new journal file is durable before records go into it.",
        (
            edit(
                "bookie_server.journal.files:JournalFiles._named",
                ("self._disk.rename_durably(", "self._disk.rename("),
            ),
        ),
    ),
    Mutation(
        "journal-header-not-synced",
        "A journal file gets its name when its header is durable.",
        (edit("bookie_server.journal.files:JournalFiles._made", ("file.sync()", "pass")),),
        plan=focused("power_cut", "power_cut_at_effect", **THREE, payload_bytes_max=8000),
    ),
    Mutation(
        "journal-file-without-end",  # docs/pitfalls.md#name-or-mark-not-durable
        "A full journal file ends with NEXT_FILE before the next one gets records: replay tells its end from a loss.",
        (
            edit(
                "bookie_server.journal.files:JournalFiles._roll",
                ("self._write_group([(RecordType.NEXT_FILE, ledger_body(file_id))])", "pass"),
            ),
        ),
    ),
    Mutation(
        "full-disk-taken-for-written",  # docs/pitfalls.md#full-disk
        "What found no room in the journal is not acknowledged.",
        (
            edit(
                "bookie_server.journal.writer:Journal._on_group",
                (
                    "item.on_durable(None if item.records_before <= group.written else group.error)",
                    "item.on_durable(None if isinstance(group.error, DiskFullError) else group.error)",
                ),
            ),
        ),
        plan=focused(
            "filled_disk", **THREE, **SLOW_DISKS, fast=True, append_every_s=0.02, payload_bytes_max=8000
        ),
    ),
    Mutation(
        "checkpoint-run-twice",
        "A checkpoint that met a full disk is repeated by one run: its end is the end of no other.",
        (
            edit(
                "bookie_server.storage.maintenance:StorageMaintenance._begin",
                ('assert self._running is None, "two runs of one job would end two jobs"', "pass"),
            ),
            edit(
                "bookie_server.storage.maintenance:StorageMaintenance.checkpoint",
                ("self._running or self._begin()", "self._begin()"),
            ),
        ),
        plan=focused(
            "filled_disk", **THREE, **SLOW_DISKS, fast=True, append_every_s=0.02, payload_bytes_max=8000
        ),
    ),
    Mutation(
        "replay-ends-at-the-first-file",  # docs/pitfalls.md#replay-not-repeatable
        "Replay goes on in the file that a NEXT_FILE record names.",
        (
            edit(
                "bookie_server.journal.replay:_Replay.run",
                ("if walk.successor is None and not self._goes_on(file_id, offset):", "if True:"),
            ),
        ),
    ),
    Mutation(
        "replay-ends-one-record-early",  # docs/pitfalls.md#replay-not-repeatable
        "Replay brings back every record that was synced, the last one too.",
        (
            edit(
                "bookie_server.journal.replay:_Walk._take",
                (
                    "else:\n            self._replay.deliver(record)",
                    "elif decode_record(self._header, self._view, self.offset) is not None:\n"
                    "            self._replay.deliver(record)",
                ),
            ),
        ),
    ),
    Mutation(
        "written-behind-a-torn-tail",  # docs/pitfalls.md#damage-taken-for-a-torn-tail
        "Writing goes on directly behind the last record: with the rest of a torn group in between, what follows "
        "makes that look like damage.",
        (
            edit(
                "bookie_server.journal.replay:_Replay.run",
                (
                    "end = LogMark(file_id, offset, sequence)",
                    "offset = max(offset, len(content.data.rstrip(bytes(1))))\n"
                    "            end = LogMark(file_id, offset, sequence)",
                ),
            ),
        ),
        plan=focused(
            "power_cut", "power_cut_at_effect", "kill_many", **THREE, **SLOW_DISKS, append_every_s=0.02
        ),
    ),
    Mutation(
        "damage-taken-for-a-torn-tail",  # docs/pitfalls.md#damage-taken-for-a-torn-tail
        "A bad record that synced ones follow is damage: cutting there denies what was acknowledged.",
        (
            edit(
                "bookie_server.journal.replay:_Walk._skip_damage",
                ("while found >= 0:", "while False:"),
            ),
            edit(
                "bookie_server.journal.replay:_Replay._goes_on",
                ("self.damage_at(", "(lambda *_: None)("),
                ("return True", "return False"),
            ),
        ),
        profile="beyond",
        plan=focused(
            "rotten_ambush",
            **AMBUSHED,
        ),
    ),
    Mutation(
        "group-not-written-again",  # docs/pitfalls.md#failed-sync-retried
        "Replay writes the last group again before it relies on it: pages of a failed sync may be clean and lost.",
        (
            edit(
                "bookie_server.journal.replay:_write_again",
                (
                    "file.write_at(group.start, [content.data[group.start : group.end], bytes(max(0, torn_bytes))])",
                    "file.write_at(group.end, [bytes(max(0, torn_bytes))])",
                ),
            ),
        ),
        plan=focused(**REFUTED_SYNCS),
    ),
    Mutation(
        "log-mark-before-the-data",  # docs/pitfalls.md#name-or-mark-not-durable
        "The log mark moves when entry log and index are synced.",
        (
            edit(
                "bookie_server.storage.checkpoint:Checkpointer.run",
                ("self.with_reserve(partial(self._store, job))", "pass"),
                (
                    "self._mark = mark",
                    "self.with_reserve(partial(self._store, job))\n    self._mark = mark",
                ),
            ),
        ),
    ),
    Mutation(
        "log-mark-ahead-of-the-checkpoint",
        "The log mark names a place before which everything is in this checkpoint or an earlier one.",
        (
            edit(
                "bookie_server.storage.checkpoint:Checkpointer.run",
                (
                    "generation=self._generation)",
                    "generation=self._generation, offset=job.mark.offset + 4096)",
                ),
            ),
        ),
    ),
    Mutation(
        "log-mark-not-synced",
        "A file that replaces another one is synced before it gets the name.",
        (edit("bookie_server.disk.disk:Disk.replace_file", ("file.sync()", "pass")),),
    ),
    Mutation(
        "log-mark-name-not-durable",  # docs/pitfalls.md#name-or-mark-not-durable
        "Journal files go away when the new log mark is durable, name and all.",
        (
            edit(
                "bookie_server.disk.disk:Disk.replace_file",
                ("self.rename_durably(temporary, path)", "self.rename(temporary, path)"),
            ),
        ),
    ),
    Mutation(
        "journal-of-the-mark-removed",
        "The journal file in which the log mark lies is still needed.",
        (
            edit(
                "bookie_server.journal.files:remove_before",
                ("if each < mark.file_id and", "if each <= mark.file_id and"),
            ),
        ),
    ),
    Mutation(
        "entry-log-not-synced",
        "Entries are in the entry log, durably, before the log mark passes them.",
        (edit("bookie_server.storage.checkpoint:Checkpointer._append", ("self._writer.sync()", "pass")),),
    ),
    Mutation(
        "entries-of-a-failed-directory-dropped",
        "What a ledger directory that fails did not take is written to another one.",
        (
            edit(
                "bookie_server.storage.checkpoint:Checkpointer._write_where_possible",
                (
                    "self._writer.leave_failed(start)",
                    "self._writer.leave_failed(start); return {}",
                ),
            ),
        ),
        plan=focused("kill_many", **THREE, bookies=3, more_directories=1, checkpoint_s=0.5),
    ),
    Mutation(
        "entry-log-name-not-durable",  # docs/pitfalls.md#name-or-mark-not-durable
        "The name of a new entry log is durable before the index speaks of it.",
        (
            edit(
                "bookie_server.storage.entry_logs.entry_log:EntryLogWriter._roll",
                ("self._disk.sync_directory(directory)", "pass"),
            ),
        ),
    ),
    Mutation(
        "index-not-synced",  # docs/pitfalls.md#name-or-mark-not-durable
        "What the index was told is durable before the log mark passes it.",
        (edit("bookie_server.storage.index:Index.sync", ("self._store.sync()", "pass")),),
    ),
    Mutation(
        "index-not-synced-and-not-noticed",
        "An index that is older than the log mark shows by its generation.",
        (
            edit("bookie_server.storage.index:Index.sync", ("self._store.sync()", "pass")),
            edit(
                "bookie_server.storage.start.journal_recovery:require_current",
                ("if index.generation() < mark.generation:", "if False:"),
            ),
        ),
    ),
    Mutation(
        "end-of-entry-log-not-recorded",
        "After a restart blocks go behind those that the index names.",
        (
            edit(
                "bookie_server.storage.checkpoint:Checkpointer._index_entries",
                ("self._index.put_log_end(self._writer.end)", "pass"),
            ),
        ),
    ),
    Mutation(
        "late-entries-dropped",
        "A run that falls into the gaps of another one is merged with it.",
        (
            edit(
                "bookie_server.storage.write_cache:LedgerRuns._merge",
                (
                    "pairs = dict(zip(ids, entries, strict=True))",
                    "pairs = {} if high > low else dict(zip(ids, entries, strict=True))",
                ),
            ),
        ),
        plan=focused(**THREE, bookies=4, copiers=2),
    ),
    Mutation(
        "rest-of-a-split-interval-forgotten",
        "A late entry splits the interval that it falls into, and both parts stay.",
        (edit("bookie_server.storage.index:Index.insert", ("if older.last > interval.last:", "if False:")),),
        plan=focused(**THREE, bookies=4, copiers=2),
    ),
    Mutation(
        "scrubber-reads-on-after-damage",
        "A read of several blocks that fails is repeated block by block: each that is damaged is reported.",
        (
            edit(
                "bookie_server.storage.scrub.walk:BlockWalk._check",
                ("for interval in run:", "for interval in run[1:]:"),
            ),
        ),
        plan=focused("minor_rot", "kill_bookie", **THREE, bookies=4, scrubs=True),
    ),
    Mutation(
        "damage-not-marked",
        "A ledger of which the scrubber has found damage is marked as under-replicated.",
        (
            edit(
                "bookie_server.storage.scrub.marking:RepairMarks.mark",
                (
                    "if self._bookie_id in metadata.members():",
                    "if self._bookie_id not in metadata.members():",
                ),
            ),
        ),
        plan=focused("minor_rot", "kill_bookie", **THREE, bookies=4, scrubs=True),
    ),
    Mutation(
        "deleted-entries-restored",
        "Entries of a deleted ledger are not in the index, and are not lost: they die with their files.",
        (
            edit(
                "bookie_server.storage.scrub.lost_entries:may_be_lost",
                ("not state.deleted and ", ""),
            ),
            edit(
                "bookie_server.storage.scrub.lost_entries:lost_ids",
                (" or state.deleted", ""),
            ),
            edit(
                "bookie_server.storage.scrub.file_walk:FileWalk._is_deleted",
                ("return ledger_id in progress.deleted", "return False"),
            ),
        ),
        plan=focused(
            "kill_client", **THREE, shrinks=True, rotation_age_s=0.7, gc_interval_s=0.7, scrubs=True
        ),
    ),
    Mutation(
        "entry-log-in-use-removed",
        "An entry log goes away when no ledger lives in it.",
        (
            edit(
                "bookie_server.storage.maintenance:StorageMaintenance._dead_logs",
                ("[each for each in closed if not parts.index.has_live_ledger(each)]", "closed"),
            ),
            edit(
                "bookie_server.storage.maintenance:StorageMaintenance._remove_log",
                ("parts.index.has_live_ledger(log_id) or ", ""),
            ),
        ),
    ),
    Mutation(
        "compacted-file-removed-before-the-index-is-synced",  # docs/pitfalls.md#name-or-mark-not-durable
        "A file whose blocks a compaction has copied goes away when the index names the copies durably.",
        (
            edit(
                "bookie_server.storage.compaction.run:CompactionRun._change_index",
                ("index.sync(index.generation())", "pass"),
            ),
        ),
        plan=focused("power_cut", "kill_many", **COMPACTED),
    ),
    Mutation(
        "compacted-log-after-the-current-one",
        "No entry log with blocks comes after the current one: only those before it are ever removed.",
        (
            edit(
                "bookie_server.storage.compaction.run:CompactionRun.finish",
                ("writer.go_on_in(LogEnd(self._log_id, self._offset))", "pass"),
            ),
        ),
        plan=focused("kill_bookie", "kill_many", **COMPACTED),
    ),
    Mutation(
        "rebuilt-index-without-what-came-since",
        "A new index of a running bookie has what checkpoints have stored since its files were read.",
        (
            edit(
                "bookie_server.storage.rebuild.running:Rebuild.finish",
                ("self._build(self._rest())", "()"),
            ),
        ),
        plan=focused("kill_bookie", rebuilds=True),
    ),
    Mutation(
        "rebuilt-index-not-synced-before-the-exchange",  # docs/pitfalls.md#name-or-mark-not-durable
        "A new index is durable before it takes the old one's place.",
        (
            edit(
                "bookie_server.storage.rebuild.running:Rebuild.finish",
                ("index.sync(known.generation)", "index._store.write([])"),
            ),
        ),
        plan=focused("kill_bookie", rebuilds=True),
    ),
    Mutation(
        "metadata-error-taken-for-absence",  # docs/pitfalls.md#absence-from-one-listing
        "A ledger is collected when metadata proves it absent: an error or half a listing proves nothing.",
        (
            edit(
                "bookie_server.storage.garbage_collector:GarbageCollector._is_proved_absent",
                ("except LogStoreError:\n        return False", "except LogStoreError:\n        return True"),
            ),
            edit(
                "bookie_server.storage.garbage_collector:GarbageCollector._ripe",
                (
                    "missing = await self._missing(local)",
                    "try:\n"
                    "        missing = await self._missing(local)\n"
                    "    except LogStoreError:\n"
                    "        missing = local",
                ),
            ),
            edit(
                "bookie_server.storage.garbage_collector:GarbageTask._run",
                ("reason := await self._not_its_cluster()", "reason := None"),
            ),
        ),
        plan=focused(
            "metadata_partition",
            "session_loss",
            "metadata_unavailable",
            ensemble=3,
            write=3,
            ack=3,
            chaos_s=20.0,
        ),
    ),
    Mutation(
        "collected-by-one-stale-listing",  # docs/pitfalls.md#absence-from-one-listing
        "Local ledgers are noted before the listing, and missed for a grace time: one created in the meantime is no "
        "garbage.",
        (
            edit(
                "bookie_server.storage.garbage_collector:GarbageCollector._ripe",
                (
                    "missing = await self._missing(local)",
                    "listed = {each async for each in self._store.ledger_ids()}\n"
                    "    missing = [each for each in self._storage.ledger_ids() if each not in listed]",
                ),
                ("if now - since >= self._config.grace_s", "if True"),
            ),
            edit(
                "bookie_server.storage.garbage_collector:GarbageCollector._is_proved_absent",
                ("await self._store.read_ledger(LedgerId(ledger_id))", "return True"),
            ),
        ),
        plan=focused(**THREE, rotation_age_s=0.7, gc_interval_s=0.7, store_s_max=0.5),
    ),
    Mutation(
        "deleted-ledger-takes-adds",  # docs/pitfalls.md#late-add-to-a-deleted-ledger
        "A deleted ledger leaves a permanent mark: a writer that slept through its deletion is refused.",
        (
            edit(
                "bookie_server.protocol.refusals:refuse_add",
                ("if ledger.deleted:", "if ledger.deleted:\n        return None\n    if ledger.deleted:"),
            ),
        ),
        plan=focused(
            **THREE, bookies=3, writers=2, readers=1, fast=True, shrinks=True, chaos_s=26.0, actions=SLEEP
        ),
    ),
)
