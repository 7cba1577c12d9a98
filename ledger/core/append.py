"""Adds of one writer: which entries are confirmed, which are visible, when to publish the LAC. Pure.

Confirmed: on an ack quorum of the recorded ensemble, and so is every entry before it. The last add confirmed
(LAC) never passes a gap, because a reader trusts every entry up to it.

Visible: a LAC at or above the entry is stored where every reader must see it (docs/log-semantics.md#rule-13):
in the header of a later entry or in an explicit LAC, on an ack quorum of a write set; or the last fragment
in metadata starts above the entry.

A failed position's acknowledgements are withdrawn immediately. So an entry counts only copies on members that
stay in the ensemble, and it is equally safe before and after the compare-and-set that replaces the failed
ones; `freeze` holds confirmation while one is in progress, since the new fragment starts at LAC + 1.

Commands are executed in order. Calls take runs, never single entries: one call per block of bytes read.

Protocol: docs/bookkeeper.md#adds, #last-add-confirmed.
Pitfalls: docs/pitfalls.md#ack-over-a-gap, #ack-of-a-replaced-member.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, final

from ledger.config import Visibility
from ledger.core.distribution import holds
from ledger.core.quorum import at_least, stored_on_quorum, trailing_ones, writable
from ledger.model import NO_ENTRY, EntryId, QuorumSizes

_RUNS_MAX = 16
"""More than this number of runs of header LACs are looked through for those that are not needed any more."""


@final
class ReleaseThrough(NamedTuple):
    """Adds up to `entry_id` are done, in the sense of the handle's visibility: complete them."""

    entry_id: EntryId


@final
class WriteLac(NamedTuple):
    """Store the explicit LAC on the bookies at `positions`; a failure of one is a failure of that bookie."""

    positions: tuple[int, ...]
    lac: EntryId


@final
@dataclass(frozen=True, slots=True)
class Resend:
    """Send every unconfirmed entry of this position's write sets to it, with the original bytes."""

    position: int


AppendCommand = ReleaseThrough | WriteLac | Resend

_new: Any = tuple.__new__
"""What the constructor of a named tuple calls after two Python frames; takes the class and a tuple of its fields."""


class AppendMachine:
    __slots__ = (
        "_acked",
        "_acked_through",
        "_alive",
        "_asked_lac",
        "_covered",
        "_fragment_floor",
        "_frozen",
        "_lac_in_flight",
        "_lac_stored",
        "_last_run_first",
        "_last_run_lac",
        "_quorum",
        "_released",
        "_run_first",
        "_run_lac",
        "_strict",
        "_striped",
        "_visible",
        "_visible_may_rise",
        "lac",
        "sent_through",
    )

    def __init__(self, quorum: QuorumSizes, visibility: Visibility, *, lac: EntryId = NO_ENTRY) -> None:
        self._quorum = quorum
        self._striped = quorum.ensemble > quorum.write
        self._strict = visibility is Visibility.STRICT
        self.lac = lac
        self._visible = lac
        """`visible` as last computed."""
        self._visible_may_rise = False
        """Whether a member stores a LAC above it since then, or the last fragment has changed."""
        self.sent_through = lac
        """Highest entry sent to the bookies: last add pushed, without what is still queued."""
        self._released = lac
        self._acked = [0] * quorum.ensemble
        self._alive = set(range(quorum.ensemble))
        self._frozen = False
        # Header LACs by entry: entries from _run_first[i] on carry _run_lac[i].
        self._run_first: list[int] = []
        self._run_lac: list[int] = []
        self._last_run_first = int(lac) + 1
        self._last_run_lac = int(NO_ENTRY)
        self._lac_stored = [int(NO_ENTRY)] * quorum.ensemble
        self._lac_in_flight: dict[int, int] = {}
        self._asked_lac = lac
        """Enough members store this LAC or were asked to; lowered again when one of them fails."""
        self._acked_through = [int(NO_ENTRY)] * quorum.ensemble
        """Highest entry that each member has acknowledged: shows which ones are fast at present."""
        self._covered = [int(lac)] * quorum.ensemble
        """Each member has every confirmed entry up to this one, or `missed` has returned those that it lacks.

        A bookie acknowledges the entries of a ledger in their order, so the highest one stands for all before it.
        """
        self._fragment_floor = int(lac)

    # ---- what happened

    def on_sent(self, last: int, header_lac: int) -> None:
        """Entries up to `last` were sent to all live members, with this LAC in their headers."""
        if self._last_run_lac != header_lac or not self._run_lac:
            self._last_run_first, self._last_run_lac = self.sent_through + 1, header_lac
            self._run_first.append(self._last_run_first)
            self._run_lac.append(header_lac)
        self.sent_through = EntryId(last)

    def on_adds_acked(self, position: int, first: int, last: int) -> list[AppendCommand]:
        """The bookie at `position` has durable copies of first..last. Repeated and late acks are normal."""
        if self._striped:
            return self.on_scattered_adds_acked(position, range(first, last + 1))
        if position not in self._alive or last > self.sent_through:
            return []  # replaced since then, or an entry never sent: such a copy must not count
        lac = self.lac
        if last > self._acked_through[position]:
            if last >= self._last_run_first and self._last_run_lac <= self._lac_stored[position]:
                self._acked_through[position] = last  # it stores a LAC as high as the header's
            else:
                self._note_ack(position, last)
        confirms = False
        if first == last == lac + 1:
            self._acked[position] |= 1
            confirms = self._advance_lac()
        elif last > lac:
            low = max(first - lac - 1, 0)
            self._acked[position] |= ((1 << (last - lac - low)) - 1) << low
            confirms = not low and self._advance_lac()
        # Most copies confirm nothing: the next entry is still missing, or this is one more than the ack quorum needs.
        # They may still make the LAC visible.
        return self._decide() if confirms or (self._strict and self._visible_may_rise) else []

    def on_scattered_adds_acked(self, position: int, entry_ids: Iterable[int]) -> list[AppendCommand]:
        """As `on_adds_acked`, for acknowledgements that are no run (striped ensembles, gaps).

        Invariant: an entry is confirmed by members of its own write set, since no reader and no recovery asks
        another. A bookie that was replaced and came back at another position still acknowledges entries that it
        was sent at its old one.
        """
        base = self.lac + 1
        if position not in self._alive:
            return []
        bits, highest = 0, -1
        for entry_id in entry_ids:
            if entry_id <= self.sent_through and holds(position, entry_id, self._quorum):
                highest = max(highest, entry_id)
                if entry_id >= base:
                    bits |= 1 << (entry_id - base)
        if highest < 0:
            return []
        self._acked[position] |= bits
        if highest > self._acked_through[position]:
            self._note_ack(position, highest)
        return self._progress()

    def on_lac_stored(self, position: int, lac: int) -> list[AppendCommand]:
        """The bookie at `position` has stored this explicit LAC durably."""
        self._lac_in_flight.pop(position, None)
        if position not in self._alive:
            return []
        if lac > self._lac_stored[position]:
            self._lac_stored[position] = lac
            if lac > self._visible:
                self._visible_may_rise = True
        return self._decide()

    def on_lac_failed(self, position: int) -> None:
        """The bookie at `position` owes no answer to an explicit LAC, and still counts: it may be asked again."""
        self._lac_in_flight.pop(position, None)

    def on_bookie_failed(self, position: int) -> list[AppendCommand]:
        """The member at `position` does not count from now until it is replaced or returns."""
        self._alive.discard(position)
        self._covered[position] = max(self._covered[position], self._acked_through[position])
        self._acked[position] = 0
        self._acked_through[position] = int(NO_ENTRY)
        self._lac_stored[position] = int(NO_ENTRY)
        self._lac_in_flight.pop(position, None)
        self._asked_lac = NO_ENTRY
        return self._progress()

    def on_bookie_returned(self, position: int) -> list[AppendCommand]:
        """The same member answers again; nothing of its earlier state is trusted."""
        self._alive.add(position)
        return [Resend(position), *self._progress()]

    def freeze(self) -> EntryId:
        """Hold confirmation while an ensemble change is written; return the new fragment's first entry."""
        self._frozen = True
        return EntryId(self.lac + 1)

    def thaw(self) -> list[AppendCommand]:
        """No change was made; confirm what was acknowledged in the meantime."""
        self._frozen = False
        return self._progress()

    def on_ensemble_changed(self, positions: Iterable[int], first_entry: int) -> list[AppendCommand]:
        """Metadata now names new bookies at `positions`, in a fragment that starts at `first_entry`."""
        self._frozen = False
        self._asked_lac = NO_ENTRY
        changed = sorted(positions)
        for position in changed:
            self._acked[position] = 0
            self._lac_stored[position] = int(NO_ENTRY)
            self._lac_in_flight.pop(position, None)
            self._acked_through[position] = int(NO_ENTRY)
            self._covered[position] = first_entry - 1
            self._alive.add(position)
        # A reader's LAC is never below the last fragment's start, so all before it is visible.
        self._fragment_floor = max(self._fragment_floor, first_entry - 1)
        self._visible_may_rise = True
        return [*(Resend(position) for position in changed), *self._progress()]

    def missed(self, position: int, through: int) -> EntryId | None:
        """The last entry up to this one that the member must hold and has not acknowledged; None if there is none.

        They are confirmed, and not sent again. Returned once for the same entries.
        """
        covered = max(self._covered[position], self._acked_through[position])
        self._covered[position] = max(covered, through)
        for entry_id in range(through, covered, -1):
            if holds(position, entry_id, self._quorum):
                return EntryId(entry_id)
        return None

    def on_closed(self) -> None:
        """Metadata says CLOSED at the LAC: every reader sees all of it from now on."""
        self._visible = self._released = self.lac

    # ---- what is wanted

    @property
    def can_confirm(self) -> bool:
        """False while some write set has fewer live members than its ack quorum."""
        return writable(self._alive, self._quorum)

    @property
    def failed_positions(self) -> set[int]:
        return set(range(self._quorum.ensemble)) - self._alive

    def unanswered(self, position: int) -> int:
        """Number of unconfirmed entries sent to the member at `position` and not acknowledged by it."""
        sent = range(self.lac + 1, self.sent_through + 1)
        sent_count = sum(holds(position, entry_id, self._quorum) for entry_id in sent)
        return sent_count - self._acked[position].bit_count()

    @property
    def visible(self) -> EntryId:
        """Highest entry that every later reader sees; at or below `lac`, never above it."""
        if self._visible_may_rise:
            self._visible_may_rise = self._fragment_floor > self.lac
            stored = stored_on_quorum(self._lac_stored, self._quorum)
            # max and min, without their calls: this runs twice for an append to an idle log.
            if stored < self._fragment_floor:
                stored = self._fragment_floor
            if stored > self._visible:
                self._visible = EntryId(stored) if stored < self.lac else self.lac
        return self._visible

    @property
    def done_through(self) -> EntryId:
        """Highest entry whose add is done under the handle's visibility."""
        return self.visible if self._strict else self.lac

    def publish_lac(self, *, even_if_busy: bool = False) -> list[AppendCommand]:
        """Write the LAC unless it is stored already, or entries in flight will soon carry a higher one.

        An ack quorum is enough, and the members that were fastest just now get it. `even_if_busy` is for the
        shell's ticker, and asks all: neither entries that hang nor a slow member may keep others invisible.
        """
        if self.visible >= self.lac:
            return []
        if not even_if_busy and self._lac_will_follow:
            return []
        return self._write_lac(all_members=even_if_busy)

    # ---- inside

    @property
    def _lac_will_follow(self) -> bool:
        """Entries in flight will carry it, or enough members were asked to store it."""
        return self.sent_through > self.lac or self._asked_lac >= self.lac

    def _write_lac(self, *, all_members: bool) -> list[AppendCommand]:
        lac = self.lac
        targets = self._lac_targets(all_members=all_members)
        if not targets:
            return []
        for position in targets:
            self._lac_in_flight[position] = lac
        return [_new(WriteLac, (tuple(targets), lac))]

    def _lac_targets(self, *, all_members: bool) -> list[int]:
        """The members to send the LAC to: those that lack it and owe no answer to an earlier one, fastest first.

        As many as give it to an ack quorum; all of them if write sets differ.
        """
        lac, in_flight, stored = self.lac, self._lac_in_flight, self._lac_stored
        if in_flight:
            lacking = [
                each for each in self._alive if stored[each] < lac and in_flight.get(each, NO_ENTRY) < lac
            ]
        else:
            lacking = [each for each in self._alive if stored[each] < lac]
        wanted = self._quorum.ack - (len(self._alive) - len(lacking))
        if in_flight:
            lacking = [each for each in lacking if each not in in_flight]
        if not all_members and not self._striped and wanted < len(lacking):
            self._asked_lac = lac
            if wanted <= 0:
                return []
            lacking.sort(key=self._acked_through.__getitem__, reverse=True)
            del lacking[wanted:]
        elif not self._striped and wanted <= len(lacking):
            self._asked_lac = lac
        lacking.sort()
        return lacking

    def _note_ack(self, position: int, highest: int) -> None:
        """The member also stores the LAC in the header of the highest entry that it has acknowledged."""
        self._acked_through[position] = highest
        if highest >= self._last_run_first:
            lac = self._last_run_lac
        else:
            index = bisect_right(self._run_first, highest)
            lac = self._run_lac[index - 1] if index else int(NO_ENTRY)
        if lac > self._lac_stored[position]:
            self._lac_stored[position] = lac
            if lac > self._visible:
                self._visible_may_rise = True

    def _progress(self) -> list[AppendCommand]:
        self._advance_lac()
        return self._decide()

    def _decide(self) -> list[AppendCommand]:
        """What is done now, and whether to write the LAC."""
        lac = self.lac
        done = lac if not self._strict else self.visible if self._visible_may_rise else self._visible
        commands: list[AppendCommand] = []
        if done > self._released:
            self._released = done
            commands.append(_new(ReleaseThrough, (done,)))
            if done == lac:
                return commands
        if done < lac and self.sent_through <= lac and self._asked_lac < lac:  # not _lac_will_follow
            commands += self._write_lac(all_members=False)
        return commands

    def _advance_lac(self) -> bool:
        """Whether an entry is confirmed by it."""
        waiting = self.sent_through - self.lac
        if not waiting or self._frozen:
            return False
        # With one entry in flight the bitmaps have no other bit: the usual case of many logs, one append each.
        count = sum(self._acked) if waiting == 1 else sum([bitmap & 1 for bitmap in self._acked])
        if count < self._quorum.ack:
            return False  # the next entry is not there yet
        if waiting == 1:
            self.lac = self.sent_through
            self._acked = [0] * len(self._acked)
        else:
            step = trailing_ones(at_least(self._quorum.ack, self._acked))
            self.lac = EntryId(self.lac + step)
            self._acked = [bitmap >> step for bitmap in self._acked]
        if len(self._run_first) > _RUNS_MAX:
            # Runs that end below the LAC are not needed any more, except the one that contains the LAC.
            stale = bisect_right(self._run_first, self.lac) - 1
            if stale > 0:
                del self._run_first[:stale], self._run_lac[:stale]
        return True
