"""Members of a writer's ensemble that fail, are replaced, come back."""

from __future__ import annotations

from tests.helpers.mutations.mutation import (
    ALL_THREE,
    ROTATING,
    SLOW_DISKS,
    SPARES,
    THREE,
    TWO_OF_THREE,
    Mutation,
    focused,
)
from tests.helpers.mutations.planting import edit

_REPAIRED = {**ROTATING, "bookies": 3, "repairers": 1, "chaos_s": 8.0}

MUTATIONS = (
    Mutation(
        "acks-of-a-replaced-member-count",  # docs/pitfalls.md#ack-of-a-replaced-member
        "What a failed member had acknowledged counts no more: readers will ask the bookie that took its place.",
        (
            edit(
                "ledger.core.append:AppendMachine.on_bookie_failed",
                ("self._acked[position] = 0\n", "pass\n"),
            ),
            edit(
                "ledger.core.append:AppendMachine.on_ensemble_changed",
                ("self._acked[position] = 0\n", "pass\n"),
            ),
        ),
        plan=focused(
            "pause_bookie",
            "kill_bookie",
            "clog",
            **SPARES,
            **SLOW_DISKS,
            writers=1,
            readers=1,
            fast=True,
            append_every_s=0.02,
        ),
    ),
    Mutation(
        "late-acks-of-a-replaced-member-count",  # docs/pitfalls.md#ack-of-a-replaced-member
        "A replaced member is detached: its late answer is no copy of its successor's.",
        (
            edit(
                "ledger.writing.ensemble_member:EnsembleMember.detach",
                ("self.connection.detach(ledger_id, self)", "pass"),
            ),
        ),
        plan=focused(
            "session_loss",
            "disk_full",
            **ALL_THREE | {"bookies": 6},
            writers=1,
            readers=1,
            witnesses=0,
            sync_s_max=0.2,
            fault_every_s=0.2,
            fast=True,
            append_every_s=0.02,
        ),
    ),
    Mutation(
        "acks-outside-the-write-set-count",  # docs/pitfalls.md#ack-of-a-replaced-member
        "An entry is confirmed by members of its own write set: a bookie that was replaced and came back at another "
        "position still acknowledges what it was sent at its old one, where no reader and no recovery looks.",
        (
            edit(
                "ledger.core.append:AppendMachine.on_scattered_adds_acked",
                (" and holds(position, entry_id, self._quorum)", ""),
            ),
        ),
        plan=focused(
            "reset",
            "slow_sync",
            **TWO_OF_THREE,
            bookies=4,
            writers=1,
            readers=1,
            sync_s_max=0.6,
            patience=2.0,
            fault_every_s=0.15,
            fast=True,
            rotation_entries=500,
            append_every_s=0.02,
        ),
    ),
    Mutation(
        "change-above-the-lac",  # docs/pitfalls.md#ack-of-a-replaced-member
        "The new fragment starts behind the last confirmed entry; one that starts behind the last sent leaves the "
        "old members responsible for entries that only the new ones have.",
        (
            edit(
                "ledger.core.append:AppendMachine.freeze",
                ("self.lac + 1", "self.sent_through + 1"),
            ),
        ),
        plan=focused("pause_bookie", "isolate", "kill_bookie", "cut", **SPARES),
    ),
    Mutation(
        "change-without-resend",  # docs/pitfalls.md#ack-of-a-replaced-member
        "A new member gets every unconfirmed entry of its fragment; without them they are never confirmed.",
        (
            edit(
                "ledger.core.append:AppendMachine.on_ensemble_changed",
                ("*(Resend(position) for position in changed), ", ""),
            ),
        ),
        plan=focused("pause_bookie", "isolate", "kill_bookie", "cut", bookies=6, ensemble=3, write=3, ack=3),
    ),
    Mutation(
        "change-never-recorded",  # docs/pitfalls.md#ack-before-the-change-is-recorded
        "Acks of a new member count once metadata names it; else no reader and no recovery looks for its copies.",
        (
            edit(
                "ledger.writing.ensemble_keeper:EnsembleKeeper._change",
                (
                    "try:\n        return await self._update(",
                    "try:\n"
                    "        local = self._handle.local\n"
                    "        if needs_replacement(local.value, replaced):\n"
                    "            changed = replace_members(local.value, first_entry, replacements)\n"
                    "            return self._adopt(Versioned(changed, local.version))\n"
                    "        return await self._update(",
                ),
            ),
        ),
        plan=focused("pause_bookie", "isolate", "kill_bookie", "cut", **SPARES),
    ),
    Mutation(
        "change-of-a-closed-ledger",  # docs/pitfalls.md#change-of-a-closed-ledger
        "Only an open ledger's ensemble changes: a recovery or a close that came first is never overwritten.",
        (
            edit(
                "ledger.core.metadata_changes:needs_replacement",
                ("metadata.state is LedgerState.OPEN and any(", "any("),
            ),
        ),
        plan=focused("pause_bookie", "kill_bookie", "pause_client", "isolate", **SPARES, writers=3),
    ),
    Mutation(
        "fenced-bookie-replaced",  # docs/pitfalls.md#fenced-bookie-replaced
        "FENCED ends the writer: one that takes it for a dead bookie and goes on with another is acknowledged "
        "behind recovery's back.",
        (
            edit(
                "ledger.writing.add_stream:AddStream.on_add_refused",
                ("status is Status.EFENCED and", "False and"),
            ),
            edit(
                "ledger.core.metadata_changes:needs_replacement",
                ("metadata.state is LedgerState.OPEN and any(", "any("),
            ),
            edit(
                "ledger.writing.ensemble_keeper:EnsembleKeeper._adopt",
                ("if updated.value.state is not LedgerState.OPEN:", "if updated.value.closed:"),
            ),
            edit(
                "ledger.writing.ensemble_keeper:EnsembleKeeper._check_open",
                ("if found.value.state is not LedgerState.OPEN:", "if found.value.closed:"),
            ),
        ),
        plan=SPARES,
    ),
    Mutation(
        "one-bookie-twice",  # docs/pitfalls.md#one-bookie-twice
        "Members of an ensemble are different bookies: two copies on one disk are one copy.",
        (
            edit(
                "ledger.core.placement:choose_replacements",
                ("taken = {*ensemble, *avoid}", "taken = set(avoid)"),
            ),
            edit(
                "ledger.core.metadata_changes:replace_members",
                ("ensemble[position] == old and new not in ensemble", "ensemble[position] == old"),
            ),
            edit(
                "ledger.model:LedgerMetadata.__post_init__",
                ("if len(set(fragment.ensemble)) != len(fragment.ensemble):", "if False:"),
            ),
        ),
        plan=focused("pause_bookie", "kill_bookie", "isolate", **THREE, bookies=4),
    ),
    Mutation(
        "write-set-in-one-rack",
        "Where racks are enforced, every write set of a new ledger spans them, also those that close the ring.",
        (
            edit(
                "ledger.core.spread:_Search._can_span",
                ("return len(racks) + blanks >= self._spread.racks and", "return"),
            ),
        ),
        plan=focused("kill_bookie", ensemble=3, write=2, ack=2, bookies=4, racks=3, enforces_racks=True),
    ),
    Mutation(
        "undecided-change-forgotten",  # docs/pitfalls.md#ack-before-the-change-is-recorded
        "After a change whose outcome is unknown metadata may name another bookie: the old member is not taken "
        "back before that is decided.",
        (
            edit(
                "ledger.writing.ensemble_keeper:EnsembleKeeper._update",
                ("before, self._unsettled = self._unsettled, True", "before = False"),
            ),
        ),
        plan=focused(
            "overdue_bookie",
            "unheard_change",
            **THREE,
            bookies=4,
            writers=1,
            patience=0.3,
            rotation_entries=500,
            rotation_age_s=30.0,
            fast=True,
            fault_every_s=2.0,
            chaos_s=16.0,
        ),
    ),
    Mutation(
        "ledger-change-with-lost-answer-taken-for-done",  # docs/pitfalls.md#lost-answer-to-a-compare-and-set
        "A change of ledger metadata whose answer was lost is settled by reading, not by assuming.",
        (
            edit(
                "ledger.metadata.update_loop:update_ledger",
                (
                    "local = await _settle(store, ledger_id, Versioned(wanted, local.version + 1), error, environment)",
                    "local = Versioned(wanted, local.version + 1)",
                ),
            ),
        ),
        # Mostly the close of a ledger is lost, and no other process would make up for it.
        plan=focused("metadata_request_lost", **ROTATING),
    ),
    Mutation(
        "failed-lac-write-taken-for-stored",
        "A bookie that refuses an explicit LAC has not stored it.",
        (
            edit(
                "ledger.writing.ensemble_member:EnsembleMember.on_lac_written",
                ("if outcome is Status.EOK:", "if True:"),
                (
                    "elif isinstance(outcome, Exception):",
                    "if isinstance(outcome, Exception):",
                ),
                ("    else:\n        self.owner.on_add_refused(self, lac, outcome)", ""),
            ),
        ),
        plan=focused(
            "clog",
            **ALL_THREE,
            **SLOW_DISKS,
            writers=1,
            readers=1,
            witnesses=2,
            append_every_s=0.1,
            fast=False,
        ),
    ),
    Mutation(
        "close-forgets-what-members-lack",  # docs/pitfalls.md#member-behind-at-the-close
        "What a member lacks as its ledger is closed is marked; otherwise only a check of everything finds it.",
        (
            edit(
                "ledger.writing.add_stream:AddStream.stop",
                ("last = self.machine.missed(member.position, self.machine.lac)", "last = None"),
            ),
        ),
        plan=focused("kill_bookie", "reset", "cut_one_way", **_REPAIRED),
    ),
    Mutation(
        "late-copy-lost-with-its-connection",  # docs/pitfalls.md#member-behind-at-the-close
        "What is lost with a connection after the close is marked, as what was not sent.",
        (edit("ledger.writing.late_copies:LateMember.on_connection_lost", ("missed=True", "missed=False")),),
        plan=focused("reset", "cut_one_way", "stall", "clog", **_REPAIRED),
    ),
    Mutation(
        "acked-before-visible",
        "A strict append is done when every later reader sees it; durable is not enough.",
        (
            edit(
                "ledger.core.append:AppendMachine.done_through",
                ("self.visible if self._strict else self.lac", "self.lac"),
            ),
        ),
        plan=focused("slow_sync", "clog", **THREE, **SLOW_DISKS, witnesses=2, append_every_s=0.1, fast=False),
    ),
)
