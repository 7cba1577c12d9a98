"""Measures space, marks and copies as a process of its own, so that this delays no append.

    python -m benchmarks.hour.watch_process URI DIRECTORY MINUTES BEGAN

Samples are lines of JSON in DIRECTORY/space and DIRECTORY/copies; what bookies hold is in DIRECTORY/bookie-N. The file
DIRECTORY/flipped, once it is there, has the blocks whose entries each count of copies reads, too.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import uvloop

from benchmarks.hour.bit_flips import FlippedBlock
from benchmarks.hour.samples import MB, CopiesSample, SpaceSample
from benchmarks.hour.schedule import Schedule
from bookie_server.storage.scrub.record import decode_scrub_record
from dlog.client import connect
from ledger.client import LedgerClient
from ledger.errors import LedgerNotFoundError, LogStoreError
from ledger.inspection.copies import CopyState
from ledger.inspection.copy_audit import CopyAudit
from ledger.model import LedgerId, LedgerMetadata, QuorumSizes

_READ = 200
"""Entries of which each count of copies reads all."""
_AT_ONCE = 20


@dataclass(frozen=True, slots=True)
class _Range:
    """Entries of one fragment."""

    ledger_id: LedgerId
    metadata: LedgerMetadata
    first: int
    last: int

    @property
    def count(self) -> int:
        return self.last - self.first + 1


class Watch:
    def __init__(self, ledgers: LedgerClient, directory: Path, began: float) -> None:
        self._ledgers = ledgers
        self._directory = directory
        self._began = began
        self._audit = CopyAudit(ledgers)
        self._rng = random.Random(16)

    def _now_s(self) -> float:
        return round(time.monotonic() - self._began, 1)

    # ---- space and marks

    async def space(self) -> SpaceSample:
        homes = sorted(path for path in self._directory.glob("bookie-*") if path.is_dir())
        return SpaceSample(
            at_s=self._now_s(),
            entry_logs_mb={home.name: _megabytes(home / "ledgers" / "entry-logs") for home in homes},
            journal_mb={home.name: _megabytes(home / "journal") for home in homes},
            marks=len([mark async for mark in self._ledgers.store.repair.marks()]),
            damaged_blocks=sum(map(_damaged_blocks, homes)),
            load=round(os.getloadavg()[0], 2),
        )

    # ---- copies

    async def copies(self) -> CopiesSample:
        at_s = self._now_s()
        ranges = [each async for each in self._ranges()]
        registered = await self._ledgers.store.bookies()
        by_copies: Counter[str] = Counter()
        short_fragments = short_entries = 0
        for each in ranges:
            ensemble = each.metadata.fragment_of(each.first).ensemble
            alive = sum(registered.find(bookie_id) is not None for bookie_id in ensemble)
            by_copies[str(alive)] += each.count
            if alive < each.metadata.quorum.write:
                short_fragments += 1
                short_entries += each.count
        intact = await self._intact(self._chosen(ranges))
        flipped = await self._flipped(ranges)
        return CopiesSample(
            at_s=at_s,
            by_copies=dict(by_copies),
            short_fragments=short_fragments,
            short_entries=short_entries,
            smaller_quorum=sum(
                each.count for each in ranges if each.metadata.quorum.write < QuorumSizes().write
            ),
            read=len(intact),
            least_intact=min((count for count, _ in intact), default=0),
            mean_intact=round(sum(count for count, _ in intact) / len(intact), 3) if intact else 0.0,
            flipped=len(flipped),
            flipped_intact=sum(count >= write for count, write in flipped),
        )

    async def _ranges(self) -> AsyncIterator[_Range]:
        """All entries that can be read now, by fragment."""
        async for ledger_id in self._ledgers.store.ledger_ids():
            try:
                handle = await self._ledgers.open(ledger_id)
            except LedgerNotFoundError:  # deleted in the meantime
                continue
            metadata, last_readable = handle.metadata, handle.last_readable
            await handle.close()
            ends = [*(fragment.first_entry - 1 for fragment in metadata.fragments[1:]), last_readable]
            for fragment, end in zip(metadata.fragments, ends, strict=True):
                last = min(end, last_readable)
                if fragment.first_entry <= last:
                    yield _Range(ledger_id, metadata, fragment.first_entry, last)

    def _chosen(self, ranges: Sequence[_Range]) -> list[tuple[_Range, int]]:
        if not ranges:
            return []
        chosen = self._rng.choices(ranges, weights=[each.count for each in ranges], k=_READ)
        return [(each, self._rng.randint(each.first, each.last)) for each in chosen]

    async def _flipped(self, ranges: Sequence[_Range]) -> list[tuple[int, int]]:
        path = self._directory / "flipped"
        if not path.exists():
            return []
        blocks = [FlippedBlock(**each) for each in json.loads(path.read_text("utf-8"))]
        return await self._intact(
            [
                (each, entry_id)
                for block in blocks
                for each in ranges
                if each.ledger_id == block.ledger_id
                for entry_id in range(max(block.first, each.first), min(block.last, each.last) + 1)
            ]
        )

    async def _intact(self, chosen: Sequence[tuple[_Range, int]]) -> list[tuple[int, int]]:
        """Of each of these entries the number of intact copies, and its write quorum."""
        found = []
        for at in range(0, len(chosen), _AT_ONCE):
            some = chosen[at : at + _AT_ONCE]
            copies = await asyncio.gather(
                *(
                    self._audit.copies(each.ledger_id, each.metadata, entry_id, entry_id)
                    for each, entry_id in some
                )
            )
            for (each, entry_id), answer in zip(some, copies, strict=True):
                states = [copy.state for copy in answer[entry_id].values()]
                found.append((states.count(CopyState.INTACT), each.metadata.quorum.write))
        return found

    # ---- for as long as it runs

    async def close(self) -> None:
        """Close the connections of its own."""
        await self._audit.close()

    async def repeat(
        self, sample: Callable[[], Awaitable[SpaceSample | CopiesSample]], path: Path, interval_s: float
    ) -> None:
        with path.open("a", encoding="utf-8") as file:
            due = time.monotonic()
            while True:
                try:
                    file.write(json.dumps(asdict(await sample())) + "\n")
                    file.flush()
                except LogStoreError as error:  # while a bookie goes; the next sample comes
                    print(f"{self._now_s()} s: no sample: {error}", flush=True)
                due = max(due + interval_s, time.monotonic())
                await asyncio.sleep(due - time.monotonic())


def _megabytes(directory: Path) -> float:
    """What the files take on the disk."""
    total = 0
    with suppress(FileNotFoundError):
        for each in directory.iterdir():
            with suppress(FileNotFoundError):
                total += each.stat().st_blocks * 512
    return round(total / MB, 2)


def _damaged_blocks(home: Path) -> int:
    try:
        record = decode_scrub_record((home / "ledgers" / "scrub-record").read_bytes())
    except FileNotFoundError:
        return 0
    return max(each.damaged_blocks if each is not None else 0 for each in (record.current, record.last))


async def main(uri: str, directory: str, minutes: str, began: str) -> None:
    schedule, home = Schedule(float(minutes)), Path(directory)
    async with connect(uri) as client:
        watch = Watch(client.ledgers, home, float(began))
        print("127.0.0.1:0 is ready", flush=True)
        async with asyncio.TaskGroup() as group:
            group.create_task(watch.repeat(watch.space, home / "space", schedule.space_interval_s))
            group.create_task(watch.repeat(watch.copies, home / "copies", schedule.copies_interval_s))


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(*sys.argv[1:]))
