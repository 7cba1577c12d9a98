"""The rotation machine against a world that answers at random: the rules hold on every walk, and it gets on."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from dlog.core import commands as to
from dlog.core.commands import RotationCommand as Command
from dlog.core.metadata_update import Applied, NotOurs
from dlog.core.rotation import Phase, Rotation
from dlog.core.takeover import OwnLog, Stamp, Takeover
from dlog.model import LogMetadata, MessageId
from ledger.model import LedgerId, Versioned
from tests.helpers.log.records import ALICE, BOB, listed, record, seal

STEPS = 120


class World:
    """A store, ledgers and a writer's shell, reduced to what the rules speak about."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.stored = record(listed(1))
        self.version = 3
        self.next_id = 2
        self.sealed: set[LedgerId] = set()
        self.close_sent: set[LedgerId] = set()
        self.in_flight: dict[LedgerId, int] = {LedgerId(1): 0}
        self.dead: set[LedgerId] = set()
        self.discarded: set[LedgerId] = set()
        self.target: LedgerId | None = None
        self.released: set[LedgerId] = set()
        self.draining: LedgerId | None = None
        self.pending: list[Callable[[], list[Command]]] = []
        self.finished = False
        self.deposed = False
        self.calm = False
        self.closing = False
        self.machine = Rotation(self.stored, self.version, LedgerId(1))
        self.carry_out(self.machine.start())

    # ---- the shell

    def carry_out(self, commands: list[Command]) -> None:
        for command in commands:
            self.do(command)

    def do(self, command: Command) -> None:
        match command:
            case to.SubmitTo(ledger_id):
                self.check_target(ledger_id)
                self.target = ledger_id
            case to.Hold():
                self.target = None
            case to.Release(ledger_id):
                earlier = [one for one in self.stored.ledger_ids if one < ledger_id]
                assert self.deposed_by_record() or set(earlier) <= self.sealed, "acks released before a seal"
                self.released.add(ledger_id)
            case to.CreateLedger(epoch):
                assert epoch == self.machine.record.epoch
                self.pending.append(self.create)
            case to.DiscardLedger(ledger_id):
                assert self.deposed_by_record() or ledger_id not in self.stored.ledger_ids, "deleted listed"
                self.discarded.add(ledger_id)
            case to.WriteRecord(sent, version):
                self.pending.append(lambda: self.write(sent, version))
            case to.Drain(ledger_id):
                self.draining = ledger_id
            case to.CloseLedger(ledger_id):
                assert not self.in_flight[ledger_id], "closed before it was drained"
                self.close_sent.add(ledger_id)
                self.pending.append(lambda: self.close(ledger_id))
            case to.Recover(fenced):
                assert self.target is None, "recovered while it is submitted to"
                self.recover(fenced=fenced)
            case to.Retry():
                self.pending.append(lambda: self.machine.on_retry(9, self.chance.getrandbits(60)))
            case to.ProbeStore():
                self.pending.append(self.probe)
            case to.Depose():
                assert self.deposed_by_record(), "deposed without a new owner"
                self.deposed = True
            case to.Finished():
                self.finished = True

    def own(self) -> list[LedgerId]:
        return [one for one in self.stored.ledger_ids if one in self.in_flight]

    def deposed_by_record(self) -> bool:
        return self.stored.owner == BOB

    def check_target(self, ledger_id: LedgerId) -> None:
        """Whatever takes appends is listed, open, and everything before it is drained.

        Source: docs/log-semantics.md#rule-15, #rule-17, #i11.
        """
        assert ledger_id not in self.close_sent, "submitted behind a close"
        if self.deposed_by_record():
            return
        assert ledger_id not in self.sealed, "submitted behind a seal"
        assert ledger_id in self.stored.ledger_ids, "submitted outside the list"
        for earlier in self.own():
            if earlier < ledger_id and earlier not in self.sealed:
                assert not self.in_flight[earlier], "submitted to N before P was drained"
                assert earlier in self.close_sent

    # ---- answers

    def flip(self, probability: float) -> bool:
        return not self.calm and self.chance.random() < probability

    def probe(self) -> list[Command]:
        away = self.flip(0.5)
        return self.machine.on_store_unreachable() if away else self.machine.on_store_reachable()

    def create(self) -> list[Command]:
        if self.flip(0.3):
            return self.machine.on_create_failed()
        return self.machine.on_ledger_created(self.new_ledger(), 9, self.chance.getrandbits(60))

    def new_ledger(self) -> LedgerId:
        new = LedgerId(self.next_id)
        self.next_id += 1
        self.in_flight[new] = 0
        return new

    def write(self, sent: LogMetadata, version: int) -> list[Command]:
        nonce = self.chance.getrandbits(60)
        answer = self.compare_and_set(sent, version)
        if answer is None:
            return self.machine.on_store_unavailable()
        return self.machine.on_answer(answer, 9, nonce)

    def compare_and_set(self, sent: LogMetadata, version: int) -> Applied | NotOurs | None:
        """None: certainly not made."""
        if self.flip(0.2):
            return None
        in_doubt = self.flip(0.3)
        if version == self.version and not (in_doubt and self.flip(0.5)):
            self.store(sent)
            if not in_doubt:
                return Applied(sent, self.version)
        if in_doubt and self.flip(0.5):
            self.shrink()
        if self.stored.nonce == sent.nonce:
            return Applied(self.stored, self.version)
        if self.version == version:
            self.shrink()
        return NotOurs(Versioned(self.stored, self.version), definite=not in_doubt)

    # ---- the takeover of the own log, step by step

    def recover(self, *, fenced: bool) -> None:
        self.dead.update(one for one in self.own() if one not in self.sealed)
        takeover = Takeover(
            "default/orders", ALICE, own=OwnLog(self.machine.record, self.machine.seals, fenced)
        )
        self.pending.append(lambda: self.take_over_own(takeover, takeover.start()))

    def take_over_own(self, takeover: Takeover, commands: list[to.TakeoverCommand]) -> list[Command]:
        if self.machine.over:
            return []
        following: list[to.TakeoverCommand] = []
        for command in commands:
            match command:
                case to.TakenOver(found, version):
                    tail = found.ledger_ids[-1]
                    new = None if tail in self.sealed else tail
                    self.carry_out(
                        self.machine.on_recovered(found, version, new, self.chance.getrandbits(60))
                    )
                    failed = tail in self.dead and self.machine.current == tail
                    return self.machine.on_failed(tail, fenced=False) if failed else []
                case to.Depose(winner):
                    return self.machine.on_lost(winner)
                case to.DiscardLedger():
                    self.do(command)
                case _:
                    following = self.answer(takeover, command)
        if following:
            self.pending.append(lambda: self.take_over_own(takeover, following))
        else:
            self.recover(fenced=False)  # a request failed
        return []

    def answer(self, takeover: Takeover, command: to.TakeoverCommand) -> list[to.TakeoverCommand]:
        """The next commands; none if the request failed."""
        stamp = Stamp(nonce=self.chance.getrandbits(60), now_us=9)
        if self.flip(0.3):
            return []
        match command:
            case to.ReadRecord():
                return takeover.on_record(Versioned(self.stored, self.version))
            case to.FenceLedgers(ledger_ids):
                unsealed = [one for one in self.own() if one not in self.sealed]
                assert set(unsealed) <= set(ledger_ids), "goes on while an own ledger is not sealed"
                for one in ledger_ids:
                    self.sealed.add(one)
                    self.in_flight[one] = 0
                seals = {one: seal(3) for one in ledger_ids}
                self.machine.on_sealed(seals)
                needed = not self.machine.closing or self.flip(0.5)
                return takeover.on_fenced(seals, [], stamp, needs_ledger=needed)
            case to.WaitForCandidate():
                return takeover.on_waited()
            case to.CreateLedger(epoch):
                assert epoch == self.machine.record.epoch
                return takeover.on_ledger_created(self.new_ledger(), stamp)
            case to.WriteRecord(sent, version):
                answer = self.compare_and_set(sent, version)
                return [] if answer is None else takeover.on_answer(answer)
            case _:
                return []

    def store(self, value: LogMetadata) -> None:
        self.stored = value
        self.version += 1
        unsealed = [one for one in self.own() if one not in self.sealed]
        assert len(unsealed) <= 2, "three unsealed ledgers"
        assert unsealed == list(value.ledger_ids[-len(unsealed) :]) if unsealed else True

    def close(self, ledger_id: LedgerId) -> list[Command]:
        if ledger_id in self.dead:
            return []
        if self.flip(0.3):
            if self.flip(0.5):
                self.sealed.add(ledger_id)  # applied, but the answer was lost
            return self.machine.on_close_undecided()
        self.sealed.add(ledger_id)
        return self.machine.on_closed(ledger_id, seal(3), self.chance.getrandbits(60))

    # ---- what happens by itself

    def shrink(self) -> None:
        self.store(
            replace(self.stored, trim_before=MessageId(0, self.version), nonce=self.chance.getrandbits(60))
        )

    def take_over(self) -> None:
        """Another candidate fences the tail and wins."""
        for one in self.own():
            self.sealed.add(one)
        self.stored = replace(self.stored, epoch=self.stored.epoch + 1, owner=BOB, nonce=1)
        self.version += 1

    def fail(self) -> list[Command]:
        alive = [one for one in self.in_flight if one not in self.dead | self.sealed | self.discarded]
        if not alive:
            return []
        victim = self.chance.choice(alive)
        self.dead.add(victim)
        return self.machine.on_failed(victim, fenced=self.flip(0.5))

    def step(self) -> None:
        roll = self.chance.random()
        if self.target is not None and roll < 0.25 and not self.calm and not self.closing:
            self.in_flight[self.target] += 1
        elif self.draining is not None and roll < 0.5:
            self.drained()
        elif self.pending and roll < 0.8:
            chosen = self.pending.pop(self.chance.randrange(len(self.pending)))
            self.carry_out(chosen())
        elif not self.calm:
            self.disturb()

    def drained(self) -> None:
        ledger_id, self.draining = self.draining, None
        assert ledger_id is not None
        if ledger_id in self.dead:
            return
        self.in_flight[ledger_id] = 0
        self.carry_out(self.machine.on_drained(ledger_id))

    def disturb(self) -> None:
        roll = self.chance.random()
        if roll < 0.5:
            self.carry_out(self.machine.on_rotation_due())
        elif roll < 0.6:
            self.carry_out(self.fail())
        elif roll < 0.75:
            self.carry_out(self.machine.on_store_unreachable())
        elif roll < 0.85:
            self.shrink()
            self.carry_out(self.machine.on_record_seen(Versioned(self.stored, self.version)))
        elif roll < 0.9:
            self.carry_out(self.machine.on_hard_limit())
        elif roll < 0.92 and not self.deposed_by_record():
            self.take_over()
        elif roll < 0.95:
            self.closing = True
            self.carry_out(self.machine.on_close_requested(holding=self.flip(0.2)))


@pytest.mark.parametrize("block", range(20))
def test_the_rules_hold_on_random_walks_and_calm_brings_a_settled_writer(block: int) -> None:
    """Chaos, then calm: the writer ends in use, finished or deposed, never stuck."""
    for seed in range(block * 150, block * 150 + 150):
        world = World(seed)
        try:
            for _ in range(STEPS):
                world.step()
                if world.finished or world.deposed:
                    break
            world.calm = True
            for _ in range(400):
                world.step()
            ended = world.finished or world.deposed
            steady = world.machine.phase is Phase.STEADY and world.target in world.released
            assert ended or steady or world.deposed_by_record(), f"stuck in {world.machine.phase}"
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
