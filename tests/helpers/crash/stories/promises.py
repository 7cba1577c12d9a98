"""What a bookie was asked and what it has answered, and the comparison with what a boot finds.

What a boot finds lies between the two: everything answered, and nothing that was never asked for. What it has found
itself is firm from then on: a client may have read it, or have been answered that it is absent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from bookie_server.storage.ledger_storage import LedgerStorage
from bookie_server.storage.ledgers.stored_ledger import StoredLedger
from tests.helpers.bookie.storage import KEY, make_entry

_ABSENT_READS = 3


class Version(NamedTuple):
    """One way in which an entry was written: recovery writes the same payload with another LAC."""

    size: int
    other: int
    lac: int

    @property
    def payload(self) -> tuple[int, int]:
        return self.size, self.other


@lru_cache(maxsize=2048)
def entry_bytes(ledger_id: int, entry_id: int, version: Version) -> bytes:
    word = b"%d/%d/%d " % (ledger_id, entry_id, version.other)
    payload = (word * (version.size // len(word) + 1))[: version.size]
    return bytes(make_entry(ledger_id, entry_id, lac=version.lac, payload=payload))


def packet_bytes(lac: int, size: int) -> bytes:
    return (b"packet %d " % lac).ljust(size, b".")


@dataclass(slots=True)
class LedgerPromises:
    """Of one ledger."""

    asked: dict[int, tuple[Version, ...]] = field(default_factory=dict)
    acked: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The payload of each entry that was answered with success."""
    fence_asked: bool = False
    fenced: bool = False
    deletion_asked: bool = False
    deleted: bool = False
    lac_asked: int = -1
    lac_acked: int = -1
    lac_low: int = -1
    """LAC that an earlier boot had."""
    packets: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """By explicit LAC: sizes of the packets that came with it."""

    def copy(self) -> LedgerPromises:
        return LedgerPromises(
            dict(self.asked), dict(self.acked), self.fence_asked, self.fenced, self.deletion_asked, self.deleted,
            self.lac_asked, self.lac_acked, self.lac_low, dict(self.packets),
        )  # fmt: skip

    @property
    def anything(self) -> bool:
        return bool(self.acked or self.fenced or self.deleted or self.lac_acked >= 0)


Promises = dict[int, LedgerPromises]


def copy_of(promises: Promises) -> Promises:
    return {ledger_id: each.copy() for ledger_id, each in promises.items()}


async def check(storage: LedgerStorage, promises: Promises, *, after_refusals: bool = False) -> Promises:
    """AssertionError with the ledger, or what a read raises; else what was found, as firm promises.

    `after_refusals`: what is absent may appear again. The journal had refused it on a full disk, a crash has ended the
    checkpoint that stored it, and it is hidden as long as the ledger has no later entry.
    """
    lower = copy_of(promises)
    found = {ledger_id: await _check(storage, ledger_id, lower, promises) for ledger_id in lower}
    if after_refusals:
        for ledger_id, each in found.items():
            if each is not None and not each.deleted:
                each.asked = dict(promises[ledger_id].asked)
    for ledger_id in storage.ledger_ids():
        assert ledger_id in promises, f"ledger {ledger_id} was never asked for"
    return {ledger_id: each for ledger_id, each in found.items() if each is not None}


async def _check(
    storage: LedgerStorage, ledger_id: int, lower: Promises, upper: Promises
) -> LedgerPromises | None:
    state, low = storage.ledger(ledger_id), lower[ledger_id]
    where = f"ledger {ledger_id}"
    if state is None:
        assert not low.anything, f"{where} is missing, but was answered: {low}"
        return None
    where = f"{state}"
    if upper[ledger_id].deletion_asked or low.deleted:
        assert low.deleted <= state.deleted, f"{where} is not deleted any more"
    else:
        assert not state.deleted, f"{where} is deleted, but no deletion was asked for"
    if state.deleted:
        assert await storage.read(state, max(low.asked, default=0)) is None, f"{where} still has entries"
        return LedgerPromises(deletion_asked=True, deleted=True)
    found = await _entries(storage, state)
    if state.deleted:  # in the meantime
        return None
    high = upper[ledger_id]
    _check_entries(where, low, high, ledger_id, found)
    await _check_absent(storage, state, where, found)
    assert state.master_key == KEY, f"{where} has the key {state.master_key!r}"
    assert low.fenced <= state.fenced <= high.fence_asked, f"{where}: fence {low.fenced}..{high.fence_asked}"
    _check_lacs(where, low, high, state)
    firm = {
        entry_id: tuple(v for v in high.asked[entry_id] if entry_bytes(ledger_id, entry_id, v) == content)
        for entry_id, content in found.items()
    }
    return LedgerPromises(
        asked=firm,
        acked={entry_id: versions[0].payload for entry_id, versions in firm.items()},
        fence_asked=state.fenced,
        fenced=state.fenced,
        lac_asked=state.explicit_lac_value,
        lac_acked=state.explicit_lac_value,
        lac_low=state.lac,
        packets=high.packets,
    )


async def _entries(storage: LedgerStorage, state: StoredLedger) -> dict[int, bytes]:
    """Everything that is there, read in runs."""
    found: dict[int, bytes] = {}
    for first, last in await storage.entry_ranges(state):
        while first <= last and not state.deleted:
            run = await storage.read_batch(state, first, last - first + 1, 1 << 30)
            if not run:
                assert state.deleted, f"{state}: entry {first} is listed and absent"
                break
            found.update(enumerate(map(bytes, run), first))
            first += len(run)
    return found


async def _check_absent(
    storage: LedgerStorage, state: StoredLedger, where: str, found: dict[int, bytes]
) -> None:
    """The first ids that are not listed."""
    absent = [each for each in range(max(found, default=-1) + 2) if each not in found][:_ABSENT_READS]
    for entry_id in absent:
        if entry_id > state.last_entry or entry_id < max(found, default=-1):
            entry = await storage.read(state, entry_id)
            assert entry is None or state.last_entry >= entry_id, f"{where}: entry {entry_id} is not listed"


def _check_entries(
    where: str, low: LedgerPromises, high: LedgerPromises, ledger_id: int, found: dict[int, bytes]
) -> None:
    lost = low.acked.keys() - found.keys()
    assert not lost, f"{where} lost {sorted(lost)}"
    ghosts = found.keys() - high.asked.keys()
    assert not ghosts, f"{where} has {sorted(ghosts)}, which were never added or were found absent before"
    for entry_id, content in found.items():
        payload = low.acked.get(entry_id)
        fitting = [
            version
            for version in high.asked[entry_id]
            if payload in (None, version.payload) and entry_bytes(ledger_id, entry_id, version) == content
        ]
        assert fitting, f"{where}: entry {entry_id} has other bytes than were added"


def _check_lacs(where: str, low: LedgerPromises, high: LedgerPromises, state: StoredLedger) -> None:
    explicit = state.explicit_lac_value
    assert low.lac_acked <= explicit <= high.lac_asked, (
        f"{where}: explicit LAC {explicit}, not in {low.lac_acked}..{high.lac_asked}"
    )
    if state.explicit_lac is not None:
        packets = [packet_bytes(explicit, size) for size in high.packets.get(explicit, ())]
        assert state.explicit_lac in packets, f"{where}: the packet of LAC {explicit} is another one"
    of_entries = (min(each.lac for each in low.asked[entry_id]) for entry_id in low.acked)
    lowest = max(low.lac_acked, low.lac_low, max(of_entries, default=-1))
    asked = (each.lac for versions in high.asked.values() for each in versions)
    highest = max(high.lac_asked, low.lac_low, max(asked, default=-1))
    assert lowest <= state.lac <= highest, f"{where}: its LAC is not in {lowest}..{highest}"
    last = max(low.acked, default=-1)
    assert last <= state.last_entry <= max(high.asked, default=-1), f"{where}: its last entry is wrong"
