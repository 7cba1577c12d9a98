"""The append machine while bookies fail, are replaced and return: an ack quorum is copies where metadata points.

The model knows what each bookie has acknowledged, and which bookie metadata names for each entry. A bookie that was
replaced keeps its connection, so its late answers arrive when it is a member again, perhaps at another position.
"""

from __future__ import annotations

import pickle
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.config import Visibility
from ledger.core.append import AppendCommand, AppendMachine, ReleaseThrough, Resend, WriteLac
from ledger.core.distribution import write_set, write_sets
from ledger.model import QuorumSizes

QUORUMS = [
    QuorumSizes(ensemble=e, write=w, ack=a)
    for e in range(1, 6)
    for w in range(1, e + 1)
    for a in range(1, w + 1)
]


class Cluster:
    """The machine under test, its bookies, and the ledger's metadata."""

    def __init__(self, quorum: QuorumSizes, visibility: Visibility, spares: int) -> None:
        self.quorum = quorum
        self.machine = AppendMachine(quorum, visibility)
        self.bookie_count = quorum.ensemble + spares
        self.ensemble = list(range(quorum.ensemble))
        self.fragments = [(0, tuple(self.ensemble))]
        self.header_lacs: list[int] = []
        self.unanswered: list[deque[int]] = [deque() for _ in range(self.bookie_count)]
        self.stored: list[set[int]] = [set() for _ in range(self.bookie_count)]
        self.explicit = [-1] * self.bookie_count
        self.lac_writes: dict[int, int] = {}
        self.change: tuple[int, int, int] | None = None
        """Position, new bookie and first entry of an ensemble change that is being written."""
        self.released = -1
        self.missed: list[set[int]] = [set() for _ in range(self.bookie_count)]
        """What each bookie is known to lack."""

    # ---- events

    def send(self) -> None:
        entry_id, lac = len(self.header_lacs), self.machine.lac
        self.machine.on_sent(entry_id, lac)
        self.header_lacs.append(lac)
        for position in write_set(entry_id, self.quorum):
            if position not in self.machine.failed_positions:
                self.unanswered[self.ensemble[position]].append(entry_id)

    def answer(self, bookie: int, count: int, *, as_run: bool) -> None:
        """The bookie acknowledges the next `count` adds that it was sent, in order."""
        acked = [self.unanswered[bookie].popleft() for _ in range(min(count, len(self.unanswered[bookie])))]
        self.stored[bookie].update(acked)
        if bookie not in self.ensemble:
            return
        position = self.ensemble.index(bookie)
        if as_run and acked == list(range(acked[0], acked[-1] + 1)):
            self.do(self.machine.on_adds_acked(position, acked[0], acked[-1]))
        else:
            self.do(self.machine.on_scattered_adds_acked(position, acked))

    def store_lac(self, position: int) -> None:
        lac = self.lac_writes.pop(position)
        bookie = self.ensemble[position]
        self.explicit[bookie] = max(self.explicit[bookie], lac)
        self.do(self.machine.on_lac_stored(position, lac))

    def fail(self, position: int) -> None:
        self.lac_writes.pop(position, None)
        self.do(self.machine.on_bookie_failed(position))

    def crash(self, position: int) -> None:
        """As `fail`; what it has not acknowledged is lost."""
        self.unanswered[self.ensemble[position]].clear()
        self.fail(position)

    def come_back(self, position: int) -> None:
        self.do(self.machine.on_bookie_returned(position))

    def begin_change(self, position: int, spare: int) -> None:
        self.change = (position, spare, self.machine.freeze())

    def thaw(self) -> None:
        self.do(self.machine.thaw())

    def end_change(self) -> None:
        assert self.change is not None
        position, spare, first = self.change
        self.change = None
        if self.machine.missed(position, first - 1) is not None:
            self.missed[self.ensemble[position]].update(range(first))
        self.ensemble[position] = spare
        self.fragments = [each for each in self.fragments if each[0] < first]
        self.fragments.append((first, tuple(self.ensemble)))
        self.lac_writes.pop(position, None)
        self.do(self.machine.on_ensemble_changed([position], first))

    def do(self, commands: list[AppendCommand]) -> None:
        for command in commands:
            match command:
                case Resend(position):
                    bookie, lac = self.ensemble[position], self.machine.lac
                    if self.machine.missed(position, lac) is not None:
                        self.missed[bookie].update(range(lac + 1))
                    for entry_id in range(lac + 1, len(self.header_lacs)):
                        if position in write_set(entry_id, self.quorum):
                            self.unanswered[bookie].append(entry_id)
                case WriteLac(positions, lac):
                    self.lac_writes.update(dict.fromkeys(positions, lac))
                case ReleaseThrough(entry_id):
                    assert entry_id > self.released
                    self.released = entry_id
        self.check()

    # ---- what must hold

    def check(self) -> None:
        for entry_id in range(self.machine.lac + 1):
            members = [each for first, each in self.fragments if first <= entry_id][-1]
            holders = [
                members[position]
                for position in write_set(entry_id, self.quorum)
                if entry_id in self.stored[members[position]]
            ]
            assert len(holders) >= self.quorum.ack, (
                f"entry {entry_id} is confirmed, and of its write set in {members} only {holders} have it"
            )
        assert self.machine.visible <= self.readers_see()
        self.check_missed()

    def check_missed(self) -> None:
        """Members get every confirmed entry of their fragments, unless it is known that they lack some."""
        ends = [*(first for first, _ in self.fragments[1:]), self.machine.lac + 1]
        for (first, ensemble), end in zip(self.fragments, ends, strict=True):
            for position, bookie in enumerate(ensemble):
                if position in self.machine.failed_positions and self.ensemble[position] == bookie:
                    continue
                known = self.stored[bookie].union(self.unanswered[bookie], self.missed[bookie])
                for entry_id in range(first, end):
                    assert position not in write_set(entry_id, self.quorum) or entry_id in known, (
                        f"entry {entry_id} is missing on {bookie}, and it is not known"
                    )

    def readers_see(self) -> int:
        """The lowest LAC that a reader may come to, over all answers that cover."""
        shown = [
            max([self.explicit[bookie], *(self.header_lacs[entry_id] for entry_id in self.stored[bookie])])
            for bookie in self.ensemble
        ]
        covering = max(
            sorted((shown[position] for position in members), reverse=True)[self.quorum.ack - 1]
            for members in write_sets(self.quorum)
        )
        return max(covering, self.fragments[-1][0] - 1)

    # ---- what can happen

    def replaceable(self) -> list[tuple[int, int]]:
        """Each failed position with each bookie that could take it."""
        spares = [bookie for bookie in range(self.bookie_count) if bookie not in self.ensemble]
        return [(position, spare) for position in sorted(self.machine.failed_positions) for spare in spares]


@settings(max_examples=600, deadline=None)
@given(quorum=st.sampled_from(QUORUMS), strict=st.booleans(), data=st.data())
def test_what_is_confirmed_has_its_copies_where_metadata_points(
    quorum: QuorumSizes, strict: bool, data: st.DataObject
) -> None:
    cluster = Cluster(quorum, Visibility.STRICT if strict else Visibility.FAST, spares=2)
    for _ in range(data.draw(st.integers(1, 60))):
        kinds = ["send", "answer", "answer", "fail", "crash"]
        kinds += ["store_lac"] * bool(cluster.lac_writes)
        if cluster.change is None:
            kinds += ["begin_change", "begin_change", "come_back"] * bool(cluster.machine.failed_positions)
        else:
            kinds += ["thaw", "end_change", "end_change"]
        match data.draw(st.sampled_from(kinds)):
            case "send":
                cluster.send()
            case "answer":
                owing = [bookie for bookie, owed in enumerate(cluster.unanswered) if owed]
                if owing:
                    count = data.draw(st.integers(1, 4))
                    cluster.answer(data.draw(st.sampled_from(owing)), count, as_run=data.draw(st.booleans()))
            case "store_lac":
                cluster.store_lac(data.draw(st.sampled_from(sorted(cluster.lac_writes))))
            case "fail":
                cluster.fail(data.draw(st.integers(0, quorum.ensemble - 1)))
            case "crash":
                cluster.crash(data.draw(st.integers(0, quorum.ensemble - 1)))
            case "come_back":
                cluster.come_back(data.draw(st.sampled_from(sorted(cluster.machine.failed_positions))))
            case "begin_change":
                cluster.begin_change(*data.draw(st.sampled_from(cluster.replaceable())))
            case "thaw":
                cluster.thaw()
            case "end_change":
                cluster.end_change()


@pytest.mark.parametrize("ack", [1, 2])
def test_every_short_history_of_a_striped_ensemble(ack: int) -> None:
    """E3 Qw2, one spare: all orders of two entries, their answers, and two failures with their replacements."""
    start = Cluster(QuorumSizes(ensemble=3, write=2, ack=ack), Visibility.FAST, spares=1)
    waiting, known = [(start, 2, 2)], set()
    while waiting:
        cluster, sends, failures = waiting.pop()
        for following in _each_next(cluster, sends, failures):
            if (key := _key(*following)) not in known:
                known.add(key)
                waiting.append(following)
    assert len(known) > 1_000


def _each_next(cluster: Cluster, sends: int, failures: int) -> list[tuple[Cluster, int, int]]:
    found, pickled = [], pickle.dumps(cluster)  # several times as fast as a deep copy

    def after(
        event: str, *arguments: object, sends: int = sends, failures: int = failures, **named: bool
    ) -> None:
        branch = pickle.loads(pickled)
        getattr(branch, event)(*arguments, **named)
        found.append((branch, sends, failures))

    if sends:
        after("send", sends=sends - 1)
    for bookie, owed in enumerate(cluster.unanswered):
        if owed:
            after("answer", bookie, 1, as_run=True)
    if failures:
        for position in range(3):
            if position not in cluster.machine.failed_positions:
                after("fail", position, failures=failures - 1)
    if cluster.change is not None:
        after("end_change")
    else:
        for position, spare in cluster.replaceable():
            after("begin_change", position, spare)
    return found


def _key(cluster: Cluster, sends: int, failures: int) -> tuple[object, ...]:
    machine = cluster.machine
    return (
        sends,
        failures,
        machine.lac,
        tuple(machine._acked),  # two histories that end alike are explored once
        tuple(sorted(machine.failed_positions)),
        tuple(cluster.ensemble),
        tuple(cluster.fragments),
        tuple(tuple(owed) for owed in cluster.unanswered),
        tuple(frozenset(held) for held in cluster.stored),
        cluster.change,
    )
