"""Fencing a ledger's writer out, reading forward, writing back, closing."""

from __future__ import annotations

from tests.helpers.mutations.mutation import (
    ALL_THREE,
    SLOW_DISKS,
    SPARES,
    THREE,
    Mutation,
    focused,
)
from tests.helpers.mutations.planting import edit

MUTATIONS = (
    Mutation(
        "recovery-without-fence",  # docs/pitfalls.md#recovery-reads-without-a-fence
        "Recovery fences before it decides anything.",
        (edit("ledger.writing.recovery_runner:RecoveryRunner._fencing_read", ("self._key,", "None,")),),
    ),
    Mutation(
        "recovery-reads-without-fence",  # docs/pitfalls.md#recovery-reads-without-a-fence
        "Every recovery read fences: a no is a promise never to accept that entry from the old writer.",
        (
            edit(
                "ledger.writing.recovery_runner:RecoveryRunner._fencing_read",
                ("self._key,", "None if priority else self._key,"),
            ),
        ),
        plan=focused(
            "unfenced_bookie",
            **THREE,
            **SLOW_DISKS,
            bookies=3,
            fast=True,
            writers=2,
            fault_every_s=4.0,
            chaos_s=16.0,
        ),
    ),
    Mutation(
        "recovery-unmarked",  # docs/pitfalls.md#change-of-a-closed-ledger
        "Recovery begins by marking the ledger, so that its writer's next change of ensemble fails.",
        (
            edit(
                "ledger.writing.recovery_runner:RecoveryRunner._mark",
                (
                    "await self._update(metadata_changes.needs_recovery_mark, metadata_changes.mark_in_recovery)",
                    "pass",
                ),
            ),
            edit(
                "ledger.core.metadata_changes:needs_recovery_close",
                ("metadata.state is LedgerState.IN_RECOVERY", "not metadata.closed"),
            ),
        ),
        plan=focused("pause_bookie", "kill_bookie", "isolate", **SPARES, writers=3),
    ),
    Mutation(
        "recovery-stops-at-the-lac",
        "Entries above the LAC may be acknowledged: recovery reads on until one is proved absent.",
        (
            edit(
                "ledger.core.recovery:RecoveryMachine.on_fence_answer",
                ("return self._read_on()", "return FinishWriteBack()"),
            ),
        ),
    ),
    Mutation(
        "recovery-without-write-back",  # docs/pitfalls.md#recovered-entry-shown-too-early
        "Each entry that recovery keeps is brought to its ack quorum before the ledger is closed.",
        (
            edit(
                "ledger.writing.recovery_runner:RecoveryRunner._write_back_found",
                ("self._write_back.add(self._found)", "pass"),
            ),
        ),
    ),
    Mutation(
        "recovery-closes-before-the-copies-are-durable",  # docs/pitfalls.md#recovered-entry-shown-too-early
        "The ledger is closed when its last entries are on their ack quorum again, not when they have been sent.",
        (
            edit(
                "ledger.writing.recovery_runner:RecoveryRunner._finish_write_back",
                ("await self._write_back.finish()", "pass"),
            ),
        ),
        plan=focused("cut_one_way", "clog", "kill_bookie", **THREE, **SLOW_DISKS, fast=True, writers=3),
    ),
    Mutation(
        "recovery-adds-with-a-rising-lac",  # docs/pitfalls.md#recovery-adds-with-a-rising-lac
        "Recovery's adds carry the LAC it began with: a reader must not trust what another recovery may cut off.",
        (
            edit(
                "ledger.writing.write_back:WriteBack.add",
                ("[bytes(entry.payload)], self.lac", "[bytes(entry.payload)], entry.entry_id - 1"),
            ),
        ),
        plan=focused(
            "two_recoveries",
            **ALL_THREE,
            fast=True,
            writers=3,
            readers=4,
            append_every_s=0.02,
            fault_every_s=3.0,
            chaos_s=16.0,
        ),
    ),
    Mutation(
        "recovery-adds-with-another-length",
        "Recovery's adds are the writer's, with the ledger length that the entry had.",
        (edit("ledger.writing.write_back:WriteBack.add", ("entry.length - len(entry.payload)", "0")),),
    ),
    Mutation(
        "recovery-records-its-change-early",  # docs/pitfalls.md#change-recorded-before-the-close
        "Recovery keeps its ensemble changes until it closes: the next recovery must ask those who may have "
        "the entries.",
        (
            edit(
                "ledger.writing.write_back:WriteBack._replace",
                (
                    "self._stream.change_ensemble(fragment)",
                    "store = self._context.store\n"
                    "    found = await store.read_ledger(self._ledger_id)\n"
                    "    if not found.value.closed:\n"
                    "        marked = found.value.with_fragment(self.changes[-1])\n"
                    "        await store.write_ledger(self._ledger_id, marked, found.version)\n"
                    "    self._stream.change_ensemble(fragment)",
                ),
            ),
        ),
        plan=focused("ambush", "kill_client", "kill_bookie", **SPARES, fast=True, writers=3),
    ),
    Mutation(
        "recovery-forgets-its-change",  # docs/pitfalls.md#change-recorded-before-the-close
        "The fragments that recovery wrote back to come into metadata together with the close.",
        (
            edit(
                "ledger.writing.recovery_runner:RecoveryRunner._close",
                (
                    "metadata_changes.closed_by_recovery(found, changes,",
                    "metadata_changes.closed_by_recovery(found, [],",
                ),
            ),
        ),
        plan=focused("ambush", "kill_client", "kill_bookie", **ALL_THREE | {"bookies": 6}, writers=3),
    ),
    Mutation(
        "close-one-entry-short",  # docs/pitfalls.md#close-below-an-ack
        "The writer closes at its LAC: whatever lies behind the last entry of a closed ledger is cut off.",
        (
            edit(
                "ledger.writing.write_handle:WriteHandle.close",
                ("self._machine.lac, self._stream", "max(self._machine.lac - 1, -1), self._stream"),
            ),
        ),
    ),
    Mutation(
        "close-overwrites-a-close",  # docs/pitfalls.md#close-race
        "CLOSED is final: a writer that finds its ledger closed elsewhere has lost it.",
        (
            edit(
                "ledger.core.metadata_changes:needs_close",
                (
                    "if metadata.state is LedgerState.OPEN:",
                    "if (metadata.last_entry, metadata.length) != (last_entry, length):",
                ),
            ),
        ),
        plan=focused("pause_client", "metadata_partition", **THREE, writers=3, rotation_age_s=0.7),
    ),
    Mutation(
        "closed-below-a-recovery",  # docs/pitfalls.md#close-race, #paused-recoverer
        "A recovery that finds the ledger closed by another client adopts that end.",
        (
            edit(
                "ledger.core.metadata_changes:needs_recovery_close",
                ("metadata.state is LedgerState.IN_RECOVERY", "True"),
            ),
        ),
        plan=focused("pause_client", "ambush", "isolate", "metadata_request_late", **THREE, writers=3),
    ),
)
