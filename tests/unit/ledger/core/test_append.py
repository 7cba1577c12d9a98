"""The append machine against a plain model, on random histories."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.config import Visibility
from ledger.core.append import AppendCommand, AppendMachine, ReleaseThrough, WriteLac
from ledger.core.distribution import write_set, write_sets
from ledger.model import EntryId, QuorumSizes

QUORUMS = st.sampled_from(
    [
        QuorumSizes(ensemble=e, write=w, ack=a)
        for e in range(1, 6)
        for w in range(1, e + 1)
        for a in range(1, w + 1)
    ]
)


class Model:
    """What is where, entry by entry."""

    def __init__(self, quorum: QuorumSizes) -> None:
        self.quorum = quorum
        self.header_lac: list[int] = []
        self.held: list[set[int]] = []
        self.lac = -1
        self.explicit = [-1] * quorum.ensemble

    def advance(self) -> None:
        while self.lac + 1 < len(self.held) and len(self.held[self.lac + 1]) >= self.quorum.ack:
            self.lac += 1

    def readers_see(self) -> int:
        """The lowest LAC that a reader may come to, over all answers that cover."""
        known = list(self.explicit)
        for entry_id, holders in enumerate(self.held):
            for position in holders:
                known[position] = max(known[position], self.header_lac[entry_id])
        return max(
            sorted((known[p] for p in members), reverse=True)[self.quorum.ack - 1]
            for members in write_sets(self.quorum)
        )


@settings(max_examples=300, deadline=None)
@given(quorum=QUORUMS, data=st.data())
def test_confirmed_and_visible_follow_from_the_copies(quorum: QuorumSizes, data: st.DataObject) -> None:
    """Random sends, acks in any order and repeated, and explicit LACs: LAC and visibility match the model."""
    machine, model = AppendMachine(quorum, Visibility.STRICT), Model(quorum)
    writes: list[tuple[int, int]] = []
    """Position and LAC of each explicit LAC without an answer."""
    released = -1
    for _ in range(data.draw(st.integers(1, 40))):
        kind = data.draw(st.sampled_from(["send", "ack", "scatter", "lac"]))
        commands = []
        if kind == "send":
            count = data.draw(st.integers(1, 5))
            machine.on_sent(len(model.held) + count - 1, machine.lac)
            model.header_lac += [model.lac] * count
            model.held += [set() for _ in range(count)]
        elif kind == "lac" and writes:
            position, lac = writes.pop(data.draw(st.integers(0, len(writes) - 1)))
            model.explicit[position] = max(model.explicit[position], lac)
            commands = machine.on_lac_stored(position, lac)
        elif model.held:
            position = data.draw(st.integers(0, quorum.ensemble - 1))
            mine = [e for e in range(len(model.held)) if position in write_set(e, quorum)]
            if not mine:
                continue
            if kind == "ack" and quorum.ensemble == quorum.write:
                first = data.draw(st.sampled_from(mine))
                last = data.draw(st.sampled_from([e for e in mine if e >= first]))
                acked = list(range(first, last + 1))
                commands = machine.on_adds_acked(position, first, last)
            else:
                acked = data.draw(st.lists(st.sampled_from(mine), min_size=1))
                commands = machine.on_scattered_adds_acked(position, acked)
            for entry_id in acked:
                model.held[entry_id].add(position)
        model.advance()
        assert machine.lac == model.lac
        assert machine.visible <= model.lac
        assert machine.visible <= max(model.readers_see(), -1)
        for command in commands:
            if isinstance(command, ReleaseThrough):
                assert released < command.entry_id == machine.visible
                released = command.entry_id
            elif isinstance(command, WriteLac):
                assert not set(command.positions) & {position for position, _ in writes}
                writes += [(position, command.lac) for position in command.positions]
    assert released == machine.visible


def lac_writes(commands: list[AppendCommand]) -> list[tuple[int, EntryId]]:
    writes = [command for command in commands if isinstance(command, WriteLac)]
    return [(position, write.lac) for write in writes for position in write.positions]


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_after_every_answer_everything_is_visible(data: st.DataObject) -> None:
    """Once every add and every explicit LAC is answered, nothing stays invisible (E3 Qw3 Qa2)."""
    quorum = QuorumSizes(ensemble=3, write=3, ack=2)
    machine = AppendMachine(quorum, Visibility.STRICT)
    sent, writes = -1, []
    for count in data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=6)):
        sent += count
        machine.on_sent(sent, machine.lac)
        for position in data.draw(st.permutations([0, 1, 2])):
            commands = machine.on_adds_acked(position, 0, sent)
            writes += lac_writes(commands)
    while writes:
        writes += lac_writes(machine.on_lac_stored(*writes.pop()))
    assert machine.visible == machine.lac == sent


def test_a_failed_members_copies_stop_counting_immediately() -> None:
    """b0 and b1 hold entry 1, entry 0 only b1: when b1 fails, entry 1 has one copy that counts, not two."""
    machine = AppendMachine(QuorumSizes(), Visibility.FAST)
    machine.on_sent(1, -1)
    machine.on_adds_acked(1, 0, 1)
    machine.on_bookie_failed(1)
    machine.on_adds_acked(0, 1, 1)
    machine.on_adds_acked(2, 0, 0)
    assert machine.lac == -1
    machine.on_adds_acked(0, 0, 0)
    assert machine.lac == 0
