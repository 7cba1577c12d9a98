"""Files of a formatted bookie that are missing or in the wrong directory, one or several of them.

It starts with every acknowledged entry and fence, or it refuses and names the directory. Where an entry log is
missing, its entries are answered as unknown: nothing that was acknowledged is ever denied.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from bookie_server.cookie import COOKIE_FILE
from bookie_server.disk.system_disk import SystemDisk
from bookie_server.errors import CookieMismatchError, IndexDamagedError, JournalDamagedError, StorageError
from bookie_server.storage.ledger_storage import LedgerStorage
from ledger.metadata.format.cookie import decode_cookie, encode_cookie
from tests.helpers.bookie.storage import copy_as_after_kill, small_config
from tests.helpers.crash.identity_scenarios import Known, new_known, start
from tests.helpers.crash.recorded_storage import LARGE_FROM, entry_of
from tests.helpers.crash.scenarios import SETTINGS

pytestmark = [pytest.mark.usefixtures("either_storage"), pytest.mark.timeout(600)]

JOURNAL, LEDGERS = "journal", "ledgers"
MADE_AGAIN = ("lock", "port", "spare.tmp", "reserve", "ledger-states")
STARTED, REFUSED = "started", "refused"
WAYS_OUT = ("restore", "mount its disk", "start the bookie with the directories", "swap the mounts")

Placed = dict[Path, Path]
"""Where a file or tree of the bookie is now, by where it belongs; both relative to its home."""


async def killed_after_first_entries(home: Path, known: Known) -> None:
    """No checkpoint yet: everything is in the journal's first file."""
    _, bookie = await start(SystemDisk(), known, small_config(home, **SETTINGS))
    await bookie.add(1, range(3))
    await bookie.fence(2)
    copy_as_after_kill(home, home.with_name("killed"))
    await bookie.storage.close()


async def killed_after_checkpoints(home: Path, known: Known) -> None:
    """Entries and fences in the index, more of both in two journal files."""
    _, bookie = await start(SystemDisk(), known, small_config(home, **SETTINGS))
    await bookie.add(1, range(3))
    await bookie.fence(2)
    await bookie.storage.checkpoint()
    await bookie.add(1, range(3, 6))
    await bookie.add(3, range(3))
    await bookie.fence(4)
    await bookie.storage.checkpoint()
    for step in range(9):
        await bookie.add(LARGE_FROM, [step])
    await bookie.fence(1)
    copy_as_after_kill(home, home.with_name("killed"))
    await bookie.storage.close()


HISTORIES = (killed_after_first_entries, killed_after_checkpoints)


@pytest.fixture(params=HISTORIES, ids=lambda history: history.__name__)
def bookie(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Known]:
    """The files of a killed bookie under its home, and what it had acknowledged."""
    home = tmp_path / "home"

    async def main() -> Known:
        known = await new_known()
        await request.param(home, known)
        return known

    known = asyncio.run(main())
    shutil.rmtree(home)
    home.with_name("killed").rename(home.with_name("files"))
    return home, known


def parts_of(home: Path) -> list[Path]:
    """What can be missing on its own: each file, and the index as one."""
    files = home.with_name("files")
    found = {path.relative_to(files) for path in files.rglob("*") if path.is_file()}
    index = Path(LEDGERS, "index")
    return sorted({index if index in path.parents else path for path in found})


def placings(parts: list[Path], each: int) -> Iterator[Placed]:
    """Each part where it belongs, missing, or under its name in the other directory.

    Everything that is wrong with one part or two, and one in `each` of what is wrong with more.
    """
    stored = [part for part in parts if part.name not in MADE_AGAIN]
    for number, places in enumerate(product(*((part, None, in_other_directory(part)) for part in stored))):
        placed = {part: place for part, place in zip(stored, places, strict=True) if place is not None}
        wrong = sum(placed.get(part) != part for part in stored)
        if len(set(placed.values())) == len(placed) and (wrong <= 2 or number % each == 0):
            yield placed


def all_but_what_is_made_again(parts: list[Path]) -> Iterator[Placed]:
    incidental = [part for part in parts if part.name in MADE_AGAIN]
    for kept in product((True, False), repeat=len(incidental)):
        lost = {part for part, is_kept in zip(incidental, kept, strict=True) if not is_kept}
        yield {part: part for part in parts if part not in lost}


def in_other_directory(part: Path) -> Path:
    directory, *rest = part.parts
    return Path(LEDGERS if directory == JOURNAL else JOURNAL, *rest)


def changed_directories(parts: list[Path], placed: Placed) -> set[str]:
    moved = [part for part in parts if placed.get(part) != part]
    return {each.parts[0] for part in moved for each in (part, placed.get(part, part))}


@pytest.mark.parametrize("each", [11, pytest.param(1, marks=pytest.mark.nightly)])
def test_a_bookie_holds_all_it_acknowledged_or_refuses_by_name(bookie: tuple[Path, Known], each: int) -> None:
    home, known = bookie
    parts = parts_of(home)
    assert {Path(JOURNAL, "VERSION"), Path(LEDGERS, "VERSION"), Path(LEDGERS, "log-mark")} < set(parts)
    assert outcomes_of(home, known, parts, placings(parts, each)) == {STARTED, REFUSED}


def test_a_bookie_starts_without_what_it_makes_again(bookie: tuple[Path, Known]) -> None:
    home, known = bookie
    parts = parts_of(home)
    assert outcomes_of(home, known, parts, all_but_what_is_made_again(parts)) == {STARTED}


def test_cookies_without_a_role_are_as_safe(bookie: tuple[Path, Known]) -> None:
    """Our first version wrote none. It starts on them; exchanged mounts show by the log mark."""
    home, known = bookie
    for path in home.with_name("files").glob(f"*/{COOKIE_FILE}"):
        cookie = decode_cookie(path.read_bytes())
        assert cookie.role == {JOURNAL: "journal", LEDGERS: "ledger"}[path.parent.name]
        path.write_bytes(encode_cookie(replace(cookie, role=None)))
    parts = parts_of(home)
    whole = {part: part for part in parts}
    assert outcomes_of(home, known, parts, [whole]) == {STARTED}
    exchanged = {part: in_other_directory(part) for part in parts}
    assert outcomes_of(home, known, parts, [exchanged]) == {REFUSED}


def outcomes_of(home: Path, known: Known, parts: list[Path], placings: Iterable[Placed]) -> set[str]:
    outcomes = [(outcome_of(home, known, parts, placed), story_of(placed, parts)) for placed in placings]
    wrong = [
        f"{outcome} with {scenario}" for outcome, scenario in outcomes if outcome not in (STARTED, REFUSED)
    ]
    assert not wrong, f"{len(wrong)} of {len(outcomes)}, such as: {'; '.join(wrong[:5])}"
    return {outcome for outcome, _ in outcomes}


def story_of(placed: Placed, parts: list[Path]) -> str:
    lost = [str(part) for part in parts if part not in placed]
    moved = [f"{part} at {target}" for part, target in placed.items() if part != target]
    return f"missing {', '.join(lost) or 'nothing'}, moved {', '.join(moved) or 'nothing'}"


def outcome_of(home: Path, known: Known, parts: list[Path], placed: Placed) -> str:
    """STARTED, REFUSED, or what is wrong."""
    shutil.rmtree(home, ignore_errors=True)
    for part, target in placed.items():
        put(home.with_name("files") / part, home / target)
    try:
        return asyncio.run(boot(home, known, parts, placed))
    except AssertionError as error:
        return str(error).partition("\n")[0]


def put(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copyfile(source, target)


async def boot(home: Path, known: Known, parts: list[Path], placed: Placed) -> str:
    changed = changed_directories(parts, placed)
    try:
        _, bookie = await start(SystemDisk(), known.copy(), small_config(home, **SETTINGS))
    except (CookieMismatchError, IndexDamagedError, JournalDamagedError) as error:
        said = str(error)
        assert any(str(home / directory) in said for directory in changed), said
        assert any(way in said for way in WAYS_OUT), said
        return REFUSED
    try:
        await require_all(
            bookie.storage,
            known,
            entry_log_lost=any(part.suffix == ".log" and placed.get(part) != part for part in parts),
        )
    finally:
        await bookie.storage.close()
    return STARTED


async def require_all(storage: LedgerStorage, known: Known, *, entry_log_lost: bool) -> None:
    for ledger_id, asked in known.ledgers.items():
        state = storage.ledger(ledger_id)
        assert state is not None, f"ledger {ledger_id} is denied"
        assert state.fenced >= asked.fenced, f"the fence of ledger {ledger_id} is forgotten"
        for entry_id in sorted(asked.acked):
            try:
                entry = await storage.read(state, entry_id)
            except StorageError:
                assert entry_log_lost
                continue
            assert entry is not None, f"entry {entry_id} of ledger {ledger_id} is denied"
            assert bytes(entry) == bytes(entry_of(ledger_id, entry_id))
