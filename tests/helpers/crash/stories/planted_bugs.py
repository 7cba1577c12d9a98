"""Bugs of a bookie's storage that only a crash shows, in addition to those of tests/simulation/mutations/storage.py.

`python -m tests.helpers.crash.stories.search` plants each and counts the boots until a story fails.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.helpers.mutations.planting import Edit, edit
from tests.simulation.mutations import storage


@dataclass(frozen=True, slots=True)
class PlantedBug:
    name: str
    rule: str
    edits: tuple[Edit, ...]


def _bug(name: str, rule: str, *edits: Edit) -> PlantedBug:
    return PlantedBug(name, rule, edits)


BUGS = (
    _bug(
        "repeated-add-trusted-after-a-full-disk",
        "A repeated add is journaled again if the first one may have found no room in the journal.",
        edit(
            "bookie_server.storage.ledger_storage:LedgerStorage._barrier_suffices",
            ("not self._journal.has_refused", "True"),
        ),
    ),
    _bug(
        "repeated-add-trusted-before-a-checkpoint",
        "A repeated add is journaled again if the first one may only be in an index that was never synced.",
        edit(
            "bookie_server.storage.ledger_storage:LedgerStorage._barrier_suffices",
            ("self._upkeep.has_checkpointed", "True"),
        ),
    ),
    _bug(
        "mark-taken-after-the-freeze",
        "The log mark is the end of the journal at the moment in which the write cache was frozen.",
        edit(
            "bookie_server.storage.maintenance:StorageMaintenance._run",
            (
                "await self._journaled()",
                'await self._journaled()\n        object.__setattr__(job, "mark", self._journal.durable)',
            ),
        ),
    ),
    _bug(
        "failed-collection-goes-by",
        "Any error but a full disk ends the storage.",
        edit(
            "bookie_server.storage.maintenance:StorageMaintenance._on_error",
            ("self._callbacks.fail(error)", "pass"),
        ),
    ),
    _bug(
        "ledger-changed-during-a-checkpoint-forgotten",
        "A state that changes while a checkpoint stores it stays for the next one.",
        edit(
            "bookie_server.storage.ledgers.stored_ledgers:StoredLedgers.stored",
            ("self._storing = {}", "self._storing, self._dirty = {}, {}"),
        ),
    ),
    _bug(
        "entry-log-synced-after-the-index",
        "Blocks are durable before an interval names them.",
        edit("bookie_server.storage.checkpoint:Checkpointer._append", ("self._writer.sync()", "pass")),
        edit(
            "bookie_server.storage.checkpoint:Checkpointer._store",
            (
                "self._index.sync(self._generation + 1)",
                "self._index.sync(self._generation + 1)\n        self._writer.sync()",
            ),
        ),
    ),
    _bug(
        "stored-before-it-is-journaled",
        "The index holds nothing that is not durable in the journal.",
        edit(
            "bookie_server.storage.maintenance:StorageMaintenance._run",
            ("await self._journaled()", "pass"),
        ),
    ),
    _bug(
        "fence-answered-before-its-record",
        "A fence is answered when its record is durable.",
        edit(
            "bookie_server.storage.ledger_storage:LedgerStorage.fence",
            (
                "self._journal.append(RecordType.FENCE, ledger_body(state.ledger_id), on_fence_durable)",
                "self._journal.append(RecordType.FENCE, ledger_body(state.ledger_id), None)\n"
                "    self._loop.call_soon(on_fence_durable, None)",
            ),
        ),
    ),
    _bug(
        "refused-fence-taken-for-durable",
        "A fence that met a full disk is journaled again when it is asked for again.",
        edit(
            "bookie_server.storage.ledger_storage:LedgerStorage.fence",
            ("state.fenced = True", "state.fenced = state.fence_durable = True"),
        ),
    ),
    _bug(
        "lower-lac-answered-early",
        "A LAC that is not the highest is answered when a higher one is durable.",
        edit(
            "bookie_server.storage.ledger_storage:LedgerStorage.set_explicit_lacs",
            (
                "self._journal.append_all(RecordType.EXPLICIT_LAC, bodies, on_durable)",
                "if any(lac < state.explicit_lac_value for state, _, lac in packets):\n"
                "        self._loop.call_soon(on_durable, None)\n"
                "    else:\n"
                "        self._journal.append_all(RecordType.EXPLICIT_LAC, bodies, on_durable)",
            ),
        ),
    ),
    _bug(
        "replay-lowers-the-lac",
        "Replay keeps the highest explicit LAC, whatever the order.",
        edit(
            "bookie_server.storage.start.journal_recovery:keep_explicit_lac",
            ("if lac < state.explicit_lac_value:", "if lac < -1:"),
        ),
    ),
    _bug(
        "log-with-one-dead-ledger-removed",
        "An entry log goes away when every ledger in it is deleted.",
        edit(
            "bookie_server.storage.index:Index.has_live_ledger",
            ("return any(", "return all("),
        ),
    ),
    _bug(
        "replay-stops-at-a-gap",
        "Replay takes entries in any order, gaps included.",
        edit(
            "bookie_server.storage.start.journal_recovery:Recovery._on_adds",
            (
                "if ids and entry_id <= ids[-1]:",
                "if ids and entry_id > ids[-1] + 1:\n            break\n        if ids and entry_id <= ids[-1]:",
            ),
        ),
    ),
    _bug(
        "late-add-ends-the-run",
        "Replay stores what comes out of order.",
        edit(
            "bookie_server.storage.start.journal_recovery:Recovery._on_adds",
            (
                "if entry_id <= state.last_entry and self._is_here(state, entry_id):",
                "if entry_id <= state.last_entry:",
            ),
        ),
    ),
    _bug(
        "torn-record-accepted",
        "A record without its CRC is no record.",
        edit(
            "bookie_server.journal.record:decode_record",
            (
                "if crc32c(copy, crc32c(covered, _seed(header, kind, base + offset))) != crc "
                "or kind not in _KNOWN:",
                "if kind not in _KNOWN:",
            ),
        ),
    ),
    _bug(
        "directory-not-synced-after-a-rename",
        "A new name is durable when its directory is synced.",
        edit(
            "bookie_server.disk.disk:Disk.rename_durably",
            ("self.sync_directory(target.parent)", "pass"),
        ),
    ),
    _bug(
        "deletion-answered-before-its-record",
        "A deletion is answered when its record is durable.",
        edit(
            "bookie_server.storage.ledger_storage:LedgerStorage.delete_ledger",
            (
                "self._journal.append(RecordType.TOMBSTONE, ledger_body(ledger_id), on_durable)",
                "self._journal.append(RecordType.TOMBSTONE, ledger_body(ledger_id), None)\n"
                "    self._loop.call_soon(on_durable, None)",
            ),
        ),
    ),
    _bug(
        "tombstone-not-replayed",
        "A deletion is replayed like everything else.",
        edit(
            "bookie_server.storage.start.journal_recovery:Recovery._on_tombstone",
            ("state.deleted, state.explicit_lac = True, None", "pass"),
        ),
    ),
    _bug(
        "fence-not-replayed",
        "A fence is replayed like everything else.",
        edit(
            "bookie_server.storage.start.journal_recovery:Recovery._on_fence",
            ("state.fenced = state.fence_durable = True", "pass"),
        ),
    ),
    _bug(
        "full-checkpoint-taken-for-done",
        "A checkpoint that met a full disk is repeated before the next one.",
        edit(
            "bookie_server.storage.maintenance:StorageMaintenance._run",
            (
                "self._full = self.shortage = full",
                "self._full = self.shortage = full\n        self._stored(job)",
            ),
        ),
    ),
    _bug(
        "states-missing-in-their-second-copy",
        "With the log mark of a generation the state log has all states up to it.",
        edit(
            "bookie_server.storage.checkpoint:Checkpointer.run",
            ("job.states, end", "(), end"),
        ),
    ),
    _bug(
        "state-log-not-synced",
        "The state log is durable before the log mark names its generation.",
        edit("bookie_server.storage.ledgers.state_log:StateLog._append", ("file.sync()", "pass")),
    ),
    _bug(
        "journal-removed-before-the-mark",
        "Journal files go away after the log mark has passed them.",
        edit(
            "bookie_server.storage.checkpoint:Checkpointer.run",
            (
                "try:\n",
                "remove_before(self._disk, self._paths.journal, mark, self._is_needed)\n    try:\n",
            ),
        ),
    ),
    _bug(
        "cookie-in-the-store-first",
        "The metadata store knows a bookie when its directories are complete.",
        edit(
            "bookie_server.cookie:prove_identity",
            (
                "await worker.run(partial(_prepare, disk, ours, config, environment))",
                "await _create_in_store(store, ours)\n"
                "            await worker.run(partial(_prepare, disk, ours, config, environment))\n"
                "            return verdict",
            ),
        ),
    ),
    _bug(
        "interval-cut-short-by-a-late-add",
        "A late entry splits the interval around its gap in two.",
        edit(
            "bookie_server.storage.index:Index.insert",
            ("if older.last > interval.last:", "if False:"),
        ),
    ),
    _bug(
        "journal-goes-on-after-an-error",
        "After an error the journal writes nothing more.",
        edit("bookie_server.journal.writer:Journal._written", ("self._broken = error", "pass")),
    ),
    _bug(
        "queued-before-a-full-disk-was-known",
        "What was queued before the loop knew of a full disk is refused with it.",
        edit(
            "bookie_server.journal.writer:Journal._refuse_late",
            ("while refused < len(items) and", "while False and"),
        ),
    ),
    _bug(
        "end-of-the-last-file-not-written-again",
        "The NEXT_FILE record that led to the last file is durable before that file gets more.",
        edit(
            "bookie_server.journal.replay:reopen_at",
            ("_write_again(disk, directory, end.next_file).file.close()", "pass"),
        ),
    ),
    _bug(
        "spare-file-of-another-id",
        "A spare journal file becomes the file for which it was made.",
        edit(
            "bookie_server.journal.files:JournalFiles._successor",
            ("spare.header.file_id == file_id and ", ""),
        ),
    ),
    _bug(
        "spare-file-made-in-the-place-of-the-last-one",
        "The next spare journal file is begun when the last one has its own name.",
        edit(
            "bookie_server.journal.files:JournalFiles._successor",
            ("spare = self._spare\n    if", "spare, self._spare = self._spare, None\n    if"),
        ),
    ),
    _bug(
        "lac-of-an-entry-that-is-here-forgotten",
        "A replayed entry raises its ledger's LAC, also if the index has the entry already.",
        edit(
            "bookie_server.storage.start.journal_recovery:Recovery._on_adds",
            ("        state.lac = max(state.lac, lac)\n", ""),
            (
                "last_entry = max(state.last_entry, entry_id)",
                "last_entry = max(state.last_entry, entry_id)\n        state.lac = max(state.lac, lac)",
            ),
        ),
    ),
    _bug(
        "salt-used-twice",
        "Each journal file has its own salt, so that old bytes are no records.",
        edit(
            "bookie_server.journal.files:JournalFiles._made",
            ("FileHeader(file_id, self._new_salt(), self._version)", "FileHeader(file_id, 7, self._version)"),
        ),
    ),
    _bug(
        "key-not-journaled",
        "The key of a ledger is durable before its first add.",
        edit(
            "bookie_server.storage.ledger_storage:LedgerStorage.create_ledger",
            ("self._journal_key(state)", "pass"),
        ),
    ),
    _bug(
        "listed-after-the-last-entry",
        "An interval after a ledger's last entry is left over from a checkpoint that a crash has ended.",
        edit(
            "bookie_server.storage.reads:StorageReads.held_ranges",
            (
                "[(first, min(last, last_entry)) for first, last in merged if first <= last_entry]",
                "merged",
            ),
        ),
    ),
    _bug(
        "empty-piece-of-an-interval-listed",
        "A piece between two late entries may hold nothing.",
        edit("bookie_server.storage.ranges:dense_ranges", ("return", "pass")),
    ),
    _bug(
        "blocks-overwritten-after-a-full-disk",
        "Blocks that the index may name are never written over, also when a checkpoint is repeated.",
        edit(
            "bookie_server.storage.checkpoint:Checkpointer._store",
            ("    try:\n", "    start = self._writer.end\n    try:\n"),
            (
                "self._index.reopen()",
                "self._placed = None\n        self._writer.back_to(start)\n        self._index.reopen()",
            ),
        ),
    ),
    _bug(
        "file-removed-without-a-last-look",
        "No file is removed that has an entry which only the index has lost.",
        edit(
            "bookie_server.storage.maintenance:StorageMaintenance.remove_dead_logs",
            ("await self._last_look.keeps_nothing(log_id) and", ""),
        ),
    ),
    _bug(
        "file-that-the-index-names-removed",
        "A file that an interval leads to is in use, also if the record of its ledger was lost.",
        edit(
            "bookie_server.storage.scrub.file_walk:FileWalk._is_unlisted",
            ("return", "return False and"),
        ),
    ),
    _bug(
        "removed-entry-log-not-durable-at-a-start",
        "The id of an entry log that was removed is given again only if no power cut can bring the old one back.",
        edit(
            "bookie_server.storage.start.opening:open_parts",
            (
                "for directory in (paths.journal, paths.ledgers, *paths.log_directories):",
                "for directory in (paths.journal, paths.ledgers):",
            ),
        ),
    ),
    _bug(
        "id-of-an-entry-log-given-twice",
        "No entry log gets an id that another one ever had, also if that one was given up.",
        edit(
            "bookie_server.storage.entry_logs.entry_log:EntryLogWriter.new_log_id",
            (
                "self._last_id += 1",
                "self._last_id = max([self.end.log_id, *all_log_ids(self._disk, self._paths)]) + 1",
            ),
        ),
    ),
    _bug(
        "blocks-of-a-failed-directory-not-written-again",
        "What a ledger directory has not synced goes to another one, from its beginning.",
        edit(
            "bookie_server.storage.entry_logs.entry_log:EntryLogWriter.sync",
            ("with self._directories", "with suppress(LedgerDirectoryFailedError), self._directories"),
        ),
    ),
    _bug(
        "part-of-the-blocks-of-a-failed-directory-kept",
        "After a failed sync nothing is known of the file, so the next blocks go into a new log.",
        edit(
            "bookie_server.storage.entry_logs.entry_log:EntryLogWriter.sync",
            ("with self._directories.may_fail(self._directory):", "with suppress(DiskFailedError):"),
        ),
    ),
    _bug(
        "full-directory-holds-up-a-checkpoint",
        "What a full ledger directory cannot take goes into another one that has space.",
        edit(
            "bookie_server.storage.checkpoint:Checkpointer._write_where_possible",
            ("or not self._directories.has_other_than(full)", "or True"),
        ),
    ),
)

NOT_OF_CRASHES: dict[str, str] = {
    "damage-taken-for-a-torn-tail": "It needs bits that rot, and a power cut tears only what was not synced.",
    "metadata-error-taken-for-absence": "The garbage collector decides by metadata, which stories do not have.",
    "collected-by-one-stale-listing": "The same.",
    "deleted-ledger-takes-adds": "The protocol refuses these adds before they reach the storage.",
}
"""Bugs of the simulation's catalogue that no story of one bookie's storage can show."""

STORAGE_BUGS: dict[str, PlantedBug] = {
    each.name: each
    for each in (*(PlantedBug(one.name, one.rule, one.edits) for one in storage.MUTATIONS), *BUGS)
    if each.name not in NOT_OF_CRASHES
}
"""All that a crash of one bookie may show."""
