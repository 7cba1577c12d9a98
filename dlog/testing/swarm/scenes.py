"""Faults that belong together: short schedules in which one rule, and no other, stands between all and a loss.

What strikes at any time hardly ever makes them, since each takes three or four faults in one order within a second.
A plan names them as it names single faults; who suffers, and when, is drawn as it is there.
"""

from __future__ import annotations

from typing import Any

from dlog.testing.bookies import SimulatedBookie
from dlog.testing.swarm.actions import Action
from dlog.testing.swarm.fault_generator import FaultGenerator

_MORE_THAN_THERE_IS = -1_000_000
"""Room on a disk that was filled by others: not even what the bookie has put by is free."""
_AT_A_CHANGE_RATE = 0.3


class Scenes(FaultGenerator):
    """Draws them beside everything that is drawn there."""

    def draw_at_a_change(self, names: tuple[str, ...], client: str, now_s: float) -> list[Action]:
        """What begins just when a writer changes metadata."""
        if client.startswith("writer") and self._chance.random() < _AT_A_CHANGE_RATE:
            if "dying_writer" in names:
                return self._dying_writer(client, now_s)
            if "unheard_change" in names and (asleep := self._asleep()) is not None:
                return self._unheard_change(client, asleep, now_s)
        return super().draw_at_a_change(names, client, now_s)

    # ---- victims

    def _asleep(self) -> str | None:
        found = [each.name for each in self._cluster.bookies if each.running and each.node.stopped]
        return self._chance.choice(found) if found else None

    def _bookies(self, count: int) -> list[str] | None:
        """Different ones that are well, in no order."""
        well = [each.name for each in self._cluster.bookies if _is_well(each)]
        return self._chance.sample(well, count) if len(well) >= count else None

    # ---- one bookie

    def _draw_filled_disk(self, at_s: float) -> list[Action]:
        """Others fill the disk, and the bookie dies before it has stored what it had in memory."""
        if (bookie := self._bookie()) is None:
            return []
        full_s = self._for_a_while(2)
        died_s = at_s + full_s * self._chance.random()
        return [
            Action(at_s=at_s, kind="disk_full", who=bookie.name, number=_MORE_THAN_THERE_IS, for_s=full_s),
            self._death(self._chance.choice(("kill_bookie", "power_cut")), bookie.name, died_s),
        ]

    # ---- writers

    def _dying_writer(self, client: str, now_s: float) -> list[Action]:
        """Some of its links stand still, so that what it sent last is on some bookies only; and it dies."""
        names = [each.name for each in self._cluster.bookies]
        still = self._chance.sample(names, self._chance.randint(1, max(1, len(names) // 2)))
        begins_s = now_s + 0.05 * self._chance.random()
        dies_s = begins_s + 0.6 * self._chance.random() ** 2
        return [
            *(
                Action(at_s=begins_s, kind="clog", who=client, to=name, for_s=1.0 + self._for_a_while(3))
                for name in still
            ),
            self._client_death(client, dies_s),
        ]

    def _draw_overdue_bookie(self, at_s: float) -> list[Action]:
        """One sleeps for so long that its writers look for another."""
        if (found := self._bookies(1)) is None:
            return []
        for_s = 1.0 + 1.5 * self._chance.random()
        return [Action(at_s=at_s, kind="pause_bookie", who=found[0], for_s=for_s)]

    def _unheard_change(self, client: str, asleep: str, now_s: float) -> list[Action]:
        """A bookie takes the place of one that sleeps, but its writer hears neither of that nor from that bookie.

        When the sleeper is back, another of its bookies gets nothing.
        """
        awake = [each.name for each in self._cluster.bookies if each.name != asleep]
        if len(awake) < 2:
            return []
        spare, still = self._chance.sample(awake, 2)
        cut_s = now_s + 0.006 * self._chance.random()
        still_s = now_s + 1.0 + 0.8 * self._chance.random()
        return [
            Action(at_s=cut_s, kind="metadata_partition", who=client, for_s=4.0),
            Action(at_s=cut_s + 0.2 * self._chance.random(), kind="cut", who=client, to=spare, for_s=4.0),
            Action(at_s=still_s, kind="clog", who=client, to=still, for_s=2.0),
        ]

    def _draw_sleeping_writer(self, at_s: float) -> list[Action]:
        """What one sends stands still on its way, and it sleeps until its ledgers may have been trimmed and deleted."""
        if not (writers := self._writers()):
            return []
        owner, for_s = self._chance.choice(writers), 8.0 + 4.0 * self._chance.random()
        return [
            *(
                Action(at_s=at_s, kind="clog", who=owner, to=each.name, for_s=for_s - 0.4)
                for each in self._cluster.bookies
            ),
            Action(at_s=at_s + 0.03, kind="pause_client", who=owner, for_s=for_s),
        ]

    # ---- recoveries

    def _draw_two_recoveries(self, at_s: float) -> list[Action]:
        """Two bookies miss the end of a ledger. One is back for a recovery that dies, the other for the next one."""
        if (found := self._bookies(2)) is None:
            return []
        back, missing = found
        first_s = at_s + 0.1 + self._for_a_while(0.5)
        second_s = first_s + 0.3 + self._for_a_while(1.5)
        return [
            Action(at_s=at_s, kind="pause_bookie", who=back, for_s=30.0),
            Action(at_s=at_s, kind="pause_bookie", who=missing, for_s=30.0),
            Action(at_s=first_s, kind="restart_bookie", who=back),
            *(Action(at_s=first_s, kind="kill_client", who=name, for_s=0.1) for name in self._writers()),
            Action(at_s=second_s, kind="restart_bookie", who=missing),
            *(
                Action(at_s=second_s, kind="kill_client", who=name, for_s=0.3 * self._chance.random())
                for name in self._writers()
            ),
        ]

    def _draw_unfenced_bookie(self, at_s: float) -> list[Action]:
        """A recovery that reaches a bookie only when it reads, while the writer's last add is on its way there.

        The add is on one bookie, which falls silent as soon as it is fenced; the writer is paused then.
        """
        writers = self._writers()
        if len(writers) < 2 or (found := self._bookies(3)) is None:
            return []
        has_it, denies, unfenced = found
        owner, candidate = self._chance.sample(writers, 2)
        comes_s = at_s + 0.3

        def soon() -> float:
            return 0.1 * self._chance.random()

        refused_s, silent_s = comes_s + soon() - at_s, comes_s + soon()
        return [
            Action(at_s=at_s, kind="clog", who=owner, to=denies, for_s=8.0),
            Action(at_s=at_s, kind="clog", who=owner, to=unfenced, for_s=1.2 + soon()),
            Action(at_s=at_s, kind="kill_client", who=candidate, for_s=comes_s - at_s),
            Action(at_s=at_s, kind="refuse", who=unfenced, for_s=refused_s),
            Action(at_s=comes_s - 0.2 * self._chance.random(), kind="pause_client", who=owner, for_s=2.0),
            Action(at_s=silent_s, kind="clog", who=candidate, to=has_it, for_s=3.0),
        ]

    # ---- beyond the contract

    def _draw_rotten_ambush(self, at_s: float) -> list[Action]:
        """An ambush in which the only one that could answer starts with a damaged journal."""
        damage = {"kind": "bit_rot", "part": ".journal", "number": 400}
        return self._ambush_with(damage, at_s)

    def _draw_wiped_ambush(self, at_s: float) -> list[Action]:
        """An ambush in which the only one that could answer starts with an empty disk."""
        return self._ambush_with({"kind": "wiped_disk", "for_s": 0.1}, at_s)

    def _draw_emptied_ambush(self, at_s: float) -> list[Action]:
        """An ambush in which the only one that could answer starts with a disk that holds nothing but its cookies."""
        return self._ambush_with({"kind": "emptied_disk", "for_s": 0.1}, at_s)

    def _ambush_with(self, damage: dict[str, Any], at_s: float) -> list[Action]:
        """One misses the newest entries. The writers die, it is back, one that has them is damaged, another sleeps."""
        if (found := self._bookies(3)) is None:
            return []
        denier, damaged, silent = found
        spring_s = at_s + 0.3 + self._for_a_while(2)
        return [
            Action(at_s=at_s, kind="pause_bookie", who=denier, for_s=30.0),
            *(Action(at_s=spring_s, kind="kill_client", who=name, for_s=0.3) for name in self._writers()),
            Action(at_s=spring_s, kind="restart_bookie", who=denier),
            Action(at_s=spring_s, who=damaged, **damage),
            Action(at_s=spring_s + 0.01, kind="restart_bookie", who=damaged),
            self._pause("pause_bookie", silent, spring_s),
        ]

    def _draw_rotten_fence(self, at_s: float) -> list[Action]:
        """A writer sleeps through a takeover and finds only one of its bookies again, which has lost its fence."""
        writers = self._writers()
        if not writers or (found := self._bookies(3)) is None:
            return []
        owner, damaged, others = self._chance.choice(writers), found[0], found[1:]
        rots_s = at_s + 0.4 + 0.6 * self._chance.random()
        size = self._chance.choice((200, 800, 3000))
        dies_s = rots_s + 0.5 * self._chance.random()
        wakes_s = dies_s + 0.2 + 0.3 * self._chance.random()
        return [
            Action(at_s=at_s, kind="metadata_partition", who=owner, for_s=6.0),
            *(Action(at_s=at_s, kind="cut", who=owner, to=name, for_s=6.0) for name in others),
            Action(at_s=at_s + 0.01, kind="pause_client", who=owner, for_s=wakes_s - at_s),
            *(
                Action(at_s=at_s + 0.02, kind="kill_client", who=name, for_s=0.1)
                for name in writers
                if name != owner
            ),
            Action(at_s=rots_s, kind="rotten_stretch", who=damaged, part=".journal", number=size),
            Action(at_s=dies_s, kind="restart_bookie", who=damaged),
        ]


def _is_well(bookie: SimulatedBookie) -> bool:
    return bookie.serving and not bookie.node.stopped
