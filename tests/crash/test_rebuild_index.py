"""`bookie rebuild-index`: whatever befalls the index, all that was acknowledged comes back from the other files.

And where those are damaged too, what is lost is unknown afterwards: never absent, never unfenced.
"""

from __future__ import annotations

import asyncio
import gc
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from bookie_server.disk.numbered_files import numbers_of
from bookie_server.disk.system_disk import SystemDisk
from bookie_server.errors import LimboError, StorageError
from bookie_server.protocol.refusals import Writability, refuse_add, refuse_fence
from bookie_server.storage.entry_logs.format import SUFFIX, encode_block, encode_file_header, file_name
from bookie_server.storage.entry_logs.scan import FoundBlock, scan
from bookie_server.storage.index import LOG_FULL
from bookie_server.storage.ledgers.state_log_format import decode_state_file, encode_frame, log_end_record
from bookie_server.storage.rebuild.new_index import Progress, Rebuilt
from bookie_server.storage.rebuild.stopped import rebuild_index
from dlog.testing.disk.disk import SimulatedDisk
from dlog.testing.disk.effects import Effect
from dlog.testing.disk.image import DiskImage
from ledger.errors import CorruptionError, LogStoreError
from ledger.wire.status import Status
from tests.helpers.bookie.storage import KEY, add, copy_as_after_kill, open_storage, small_config
from tests.helpers.crash.recorded_storage import LARGE_FROM, Asked, Ledgers, RecordedStorage, check, copy_of
from tests.helpers.crash.scenarios import HOME, SCENARIOS, SETTINGS, Scenario, everything, garbage, opened
from tests.helpers.simulation.disk import new_disk, run

pytestmark = pytest.mark.usefixtures("either_storage")

FLIPS = 40


async def filled(directory: Path, ledgers: Ledgers) -> None:
    """Checkpoints with late entries, fences, LACs and deletions between them, and a journal's tail."""
    bookie = RecordedStorage(await open_storage(directory, **SETTINGS), ledgers)
    for step in range(4):
        await bookie.add(1, range(40 * step, 40 * step + 40))
        await bookie.add(2, [7 * step, 7 * step + 3])
        for ledger_id in range(10 * step + 10, 10 * step + 20):
            await bookie.add(ledger_id, [step, step + 1])
        await bookie.add(LARGE_FROM, range(4 * step, 4 * step + 4))
        await bookie.fence(10 * step + 10)
        await bookie.fence(60 + step)
        await bookie.set_lac(10 * step + 11, step)
        await bookie.delete(10 * step + 12)
        await bookie.storage.checkpoint()
        await bookie.add(2, [7 * step + 1, 7 * step + 2])
    await bookie.fence(2)
    await bookie.storage.close()


@pytest.fixture(scope="module")
def bookie(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ledgers]:
    directory, ledgers = tmp_path_factory.mktemp("rebuild") / "bookie", Ledgers()
    asyncio.run(filled(directory, ledgers))
    return directory, ledgers


def rebuild(directory: Path) -> Rebuilt:
    return rebuild_index(SystemDisk(), small_config(directory, **SETTINGS), lambda _: None)


async def denies_nothing(directory: Path, ledgers: Ledgers) -> str:
    """Everything acknowledged is there or unknown; whether all is there, and if not what was raised."""
    try:
        storage = await open_storage(directory, **SETTINGS)
    except CorruptionError as error:
        return str(error)
    trouble = ""
    for ledger_id, asked in ledgers.items():
        try:
            state = storage.ledger(ledger_id)
            assert state is not None, f"ledger {ledger_id} is denied"
            assert (state.fenced, state.deleted) >= (asked.fenced, asked.deleted)
        except StorageError as error:
            trouble = str(error)
            continue
        for entry_id in () if asked.deleted else asked.acked:
            try:
                assert await storage.read(state, entry_id) is not None, f"{ledger_id}/{entry_id} is denied"
            except StorageError as error:
                trouble = str(error)
    await storage.close()
    return trouble


async def holds_everything(directory: Path, ledgers: Ledgers) -> None:
    storage = await open_storage(directory, **SETTINGS)
    assert not storage.limbo
    await check(storage, ledgers)
    await storage.close()


# ---- real bits, real RocksDB


def flip_bits(directory: Path, choose: Random) -> str:
    files = sorted((directory / "ledgers" / "index").glob("*.sst"))
    path = choose.choice(files)
    content = bytearray(path.read_bytes())
    at = choose.randrange(len(content))
    content[at] ^= 1 << choose.randrange(8)
    path.write_bytes(content)
    return f"{path.name} at {at}"


def test_a_flipped_bit_anywhere_in_the_index_is_repaired(
    bookie: tuple[Path, Ledgers], tmp_path: Path
) -> None:
    source, ledgers = bookie
    choose, noticed = Random(1), 0
    gc.freeze()  # what other tests have left behind is looked at no more
    for number in range(FLIPS):
        directory = copy_as_after_kill(source, tmp_path / str(number))
        where = flip_bits(directory, choose)
        trouble = asyncio.run(denies_nothing(directory, ledgers))
        if trouble:
            noticed += 1
            assert "rebuild-index" in trouble, where
            assert str(directory / "ledgers" / "index") in trouble
        gc.collect()  # an iterator that met damage keeps the files locked until it is gone
        rebuilt = rebuild(directory)
        assert not rebuilt.lost, where
        asyncio.run(holds_everything(directory, ledgers))
        shutil.rmtree(directory)
    gc.unfreeze()
    assert noticed > FLIPS / 2


def lose_index(directory: Path) -> None:
    shutil.rmtree(directory / "ledgers" / "index")


def empty_index(directory: Path) -> None:
    lose_index(directory)
    (directory / "ledgers" / "index").mkdir()


def cut_manifest(directory: Path) -> None:
    [path, *_] = (directory / "ledgers" / "index").glob("MANIFEST*")
    path.write_bytes(path.read_bytes()[:100])


def lose_table(directory: Path) -> None:
    next((directory / "ledgers" / "index").glob("*.sst")).unlink()


def spoil_current(directory: Path) -> None:
    (directory / "ledgers" / "index" / "CURRENT").write_bytes(b"\0" * 16)


@pytest.mark.parametrize("harm", [lose_index, empty_index, cut_manifest, lose_table, spoil_current])
def test_whatever_is_lost_of_the_index_a_start_names_the_way_out(
    bookie: tuple[Path, Ledgers], tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    source, ledgers = bookie
    directory = copy_as_after_kill(source, tmp_path / "bookie")
    harm(directory)
    with pytest.raises(CorruptionError, match="rebuild-index"):
        asyncio.run(holds_everything(directory, ledgers))
    steps: list[Progress] = []
    rebuilt = rebuild_index(SystemDisk(), small_config(directory, **SETTINGS), steps.append)
    assert not rebuilt.lost
    assert {step.doing for step in steps} == {"indexed", "verified"}
    assert steps[-1].entries == rebuilt.entries > 200
    assert rebuilt.deleted == sum(asked.deleted for asked in ledgers.values())
    assert sorted(path.name for path in (directory / "ledgers").glob("index*")) == ["index"]
    asyncio.run(holds_everything(directory, ledgers))


def test_a_compaction_that_meets_damage_ends_the_bookie_with_the_way_out(tmp_path: Path) -> None:
    """RocksDB says so at the next write; nothing is denied before, and a rebuild brings all of it back."""
    directory, ledgers = tmp_path / "bookie", Ledgers()

    async def until_compaction() -> str:
        storage = await open_storage(directory, **SETTINGS)
        for ledger_id in range(1000, 6000):
            storage.create_ledger(ledger_id, KEY)
        await storage.checkpoint()
        await storage.close()
        largest = max((directory / "ledgers" / "index").glob("*.sst"), key=lambda path: path.stat().st_size)
        spoil(largest, largest.stat().st_size // 2)
        storage = await open_storage(directory, **SETTINGS)
        failures: list[Exception] = []
        storage.on_failure = failures.append
        bookie = RecordedStorage(storage, ledgers)
        for step in range(40):
            try:
                await bookie.add(6001, [step])
                await storage.checkpoint()
            except LogStoreError:
                break
            await asyncio.sleep(0.02)
        assert failures, "no compaction has met the damage"
        unknown = 0
        for ledger_id in range(1000, 6000):
            try:
                assert storage.ledger(ledger_id) is not None
            except StorageError:
                unknown += 1
        assert 0 < unknown < 1000
        await storage.close()
        return str(failures[0])

    sentence = asyncio.run(until_compaction())
    assert "rebuild-index" in sentence
    assert ".sst" in sentence
    gc.collect()
    rebuilt = rebuild(directory)
    assert not rebuilt.lost
    assert rebuilt.ledgers >= 5000
    for ledger_id in range(1000, 6000):
        ledgers[ledger_id] = Asked()
    asyncio.run(holds_everything(directory, ledgers))


# ---- what is lost besides


def spoil(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 16
    path.write_bytes(content)


@pytest.mark.parametrize("where", ["header", "block", "end"])
def test_entries_lost_with_an_entry_log_are_unknown(
    bookie: tuple[Path, Ledgers], tmp_path: Path, where: str
) -> None:
    source, ledgers = bookie
    directory = copy_as_after_kill(source, tmp_path / "bookie")
    log = sorted((directory / "ledgers" / "entry-logs").iterdir())[0]
    spoil(log, {"header": 5, "block": 300, "end": log.stat().st_size - 3}[where])
    lose_index(directory)
    rebuilt = rebuild(directory)
    assert any(log.name in each for each in rebuilt.lost)
    asyncio.run(denies_nothing(directory, ledgers))
    storage_is_in_limbo(directory)


def storage_is_in_limbo(directory: Path) -> None:
    async def main() -> None:
        storage = await open_storage(directory, **SETTINGS)
        assert storage.limbo
        with pytest.raises(LimboError):
            storage.ledger(999)
        await storage.close()

    asyncio.run(main())


def test_a_lost_entry_log_is_missed(bookie: tuple[Path, Ledgers], tmp_path: Path) -> None:
    source, ledgers = bookie
    directory = copy_as_after_kill(source, tmp_path / "bookie")
    sorted((directory / "ledgers" / "entry-logs").iterdir())[0].unlink()
    lose_index(directory)
    assert rebuild(directory).lost
    assert asyncio.run(denies_nothing(directory, ledgers))
    storage_is_in_limbo(directory)


@pytest.mark.parametrize("header", ["intact", "damaged"])
def test_entries_that_are_in_two_entry_logs_are_proved_in_either(
    bookie: tuple[Path, Ledgers], tmp_path: Path, header: str
) -> None:
    """A checkpoint that a crash cut off leaves blocks that the next one writes again.

    Without the state log the first ones are read, too.
    """
    source, ledgers = bookie
    directory = copy_as_after_kill(source, tmp_path / "bookie")
    logs = directory / "ledgers" / "entry-logs"
    last_id = numbers_of(SystemDisk(), logs, SUFFIX)[-1]
    found = next(
        each for each in scan(SystemDisk(), logs / file_name(1), 1, None) if isinstance(each, FoundBlock)
    )
    entries = [bytes(entry) for each in found.block.ids if (entry := found.block.entry(each)) is not None]
    start = encode_file_header(last_id + 1)
    again = encode_block(last_id + 1, len(start), found.block.ledger_id, found.block.ids, entries)
    (logs / file_name(last_id + 1)).write_bytes(b"".join((start, *again)))
    if header == "damaged":
        spoil(logs / file_name(last_id + 1), 5)
    (directory / "ledgers" / "ledger-states").unlink()
    rebuilt = rebuild(directory)
    assert any(file_name(last_id + 1) in each for each in rebuilt.lost) == (header == "damaged")
    asyncio.run(denies_nothing(directory, ledgers))


@pytest.mark.parametrize("index_too", [False, True])
def test_without_the_state_log_nothing_is_unfenced_or_denied(
    bookie: tuple[Path, Ledgers], tmp_path: Path, index_too: bool
) -> None:
    """The old index tells what it still can; a ledger that only the entry logs know takes nobody's key for wrong."""
    source, ledgers = bookie
    directory = copy_as_after_kill(source, tmp_path / "bookie")
    spoil(directory / "ledgers" / "ledger-states", 40)
    if index_too:
        lose_index(directory)
    assert rebuild(directory).lost
    asyncio.run(denies_nothing(directory, {} if index_too else ledgers))

    async def main() -> None:
        storage = await open_storage(directory, **SETTINGS)
        assert storage.limbo
        state = storage.ledger(1)
        assert state is not None
        normal = refuse_add(Writability(), state, 1, KEY, recovery=False, priority=False)
        assert normal is not None
        assert refuse_fence(state, 1, KEY) is (Status.EUNKNOWNLEDGERSTATE if index_too else None)
        assert await storage.read(state, 5) is not None
        with pytest.raises(LimboError):
            await storage.read(state, 10_000)
        await storage.close()

    asyncio.run(main())


def test_a_bookie_goes_on_with_a_rebuilt_index_where_entry_logs_may_have_any_size(tmp_path: Path) -> None:
    """The end of a log that is not known stands for a full log, also next to the largest setting there is."""
    settings = SETTINGS | {"entry_log_bytes_max": 2**63 - 1}

    async def first() -> None:
        storage = await open_storage(tmp_path, **settings)
        await add(storage, storage.create_ledger(1, KEY), range(5))
        await storage.close()

    async def again() -> None:
        storage = await open_storage(tmp_path, **settings)
        state = storage.ledger(1)
        assert state is not None
        await add(storage, state, range(5, 8))
        await storage.close()
        assert storage.failed is None

    asyncio.run(first())
    small_config(tmp_path).ledger_directory.joinpath("ledger-states").unlink()
    assert rebuild(tmp_path).lost
    asyncio.run(again())


@pytest.mark.parametrize("noted_by", ["this build", "an earlier one"])
def test_an_index_that_was_rebuilt_with_losses_is_rebuilt_again(
    bookie: tuple[Path, Ledgers], tmp_path: Path, noted_by: str
) -> None:
    """Nothing is appended to the last entry log any more: its end is that of its file, and not a number to scan to."""
    source, ledgers = bookie
    directory = copy_as_after_kill(source, tmp_path / "bookie")
    states = directory / "ledgers" / "ledger-states"
    last_id = numbers_of(SystemDisk(), directory / "ledgers" / "entry-logs", SUFFIX)[-1]
    spoil(states, 40)
    assert rebuild(directory).lost
    storage_is_in_limbo(directory)
    if noted_by == "an earlier one":
        known, data = decode_state_file(states.read_bytes()), states.read_bytes()
        states.write_bytes(
            data + encode_frame(len(data), known.generation, [log_end_record(last_id, LOG_FULL)])
        )
    assert last_id in decode_state_file(states.read_bytes()).log_ends
    rebuild(directory)
    asyncio.run(denies_nothing(directory, ledgers))


@pytest.mark.parametrize("log_too", [False, True])
def test_a_bookie_that_never_had_the_state_log_gets_it(
    bookie: tuple[Path, Ledgers], tmp_path: Path, log_too: bool
) -> None:
    """Of an older version, or it was lost. An entry log that is lost afterwards is missed all the same."""
    source, ledgers = bookie
    directory = copy_as_after_kill(source, tmp_path / "bookie")
    (directory / "ledgers" / "ledger-states").unlink()

    async def next_checkpoint() -> None:
        bookie = RecordedStorage(await open_storage(directory, **SETTINGS), ledgers)
        await bookie.add(1, [0])
        await bookie.storage.close()

    asyncio.run(next_checkpoint())
    if log_too:
        sorted((directory / "ledgers" / "entry-logs").iterdir())[0].unlink()
    lose_index(directory)
    assert bool(rebuild(directory).lost) == log_too
    if log_too:
        assert asyncio.run(denies_nothing(directory, ledgers))
    else:
        asyncio.run(holds_everything(directory, ledgers))


# ---- at any moment, and cut off at any moment


def cuts_of(scenario: Scenario, each: int) -> list[tuple[Effect, DiskImage, Ledgers]]:
    disk, recorded, choose = new_disk(), Ledgers(), Random(scenario.__name__)
    found: list[tuple[Effect, DiskImage, Ledgers]] = []

    def take(effect: Effect) -> None:
        promised = copy_of(recorded)
        found.extend((effect, image, promised) for image in disk.legal_images(each, choose))

    async def main() -> None:
        await scenario(await opened(disk, recorded))

    disk.watch_effects(take)
    asyncio.run(main())
    return found


def rebuild_on(disk: SimulatedDisk) -> Rebuilt:
    return rebuild_index(disk, small_config(HOME, **SETTINGS), lambda _: None)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: str(scenario.__name__))
def test_the_index_can_be_made_anew_after_a_power_cut_at_any_effect(scenario: Scenario) -> None:
    for number, (effect, image, promised) in enumerate(cuts_of(scenario, 2)):
        disk = new_disk(number, image=image)
        if not disk.exists(HOME / "ledgers" / "log-mark"):
            continue  # the first start did not end: nothing was ever promised
        disk.damage_index(whole=True)

        async def boot(disk: SimulatedDisk = disk, promised: Ledgers = promised) -> None:
            bookie = await opened(disk, copy_of(promised))
            assert not bookie.storage.limbo
            await check(bookie.storage, promised)
            await bookie.storage.close()

        try:
            assert rebuild_on(disk).lost == []
            asyncio.run(boot())
        except (LogStoreError, AssertionError) as error:
            error.add_note(f"power cut before {effect}; {'; '.join(image.changes)}")
            raise


@pytest.mark.parametrize("scenario", [everything, garbage], ids=lambda scenario: str(scenario.__name__))
def test_a_rebuild_cut_off_at_any_effect_can_be_repeated(scenario: Scenario) -> None:
    """And a start in between holds everything: the old index was good."""
    disk, recorded = new_disk(), Ledgers()
    run(_lived(disk, scenario, recorded))
    images: list[tuple[Effect, DiskImage]] = []
    choose = Random(1)
    disk.watch_effects(
        lambda effect: images.extend((effect, image) for image in disk.legal_images(4, choose))
    )
    rebuild_on(disk)
    disk.watch_effects(None)
    assert len(images) > 20
    for number, (effect, image) in enumerate(images):
        again = new_disk(number, image=image)
        try:
            run(_boot(again, recorded))
            again = new_disk(number, image=image)
            assert rebuild_on(again).lost == []
            run(_boot(again, recorded))
        except (LogStoreError, AssertionError) as error:
            error.add_note(f"power cut before {effect}; {'; '.join(image.changes)}")
            raise


def test_a_rebuild_after_one_that_was_cut_off_within_the_exchange_may_be_cut_off_too() -> None:
    """There is no index then but the new one, and a start in between holds everything."""
    disk, recorded = new_disk(), Ledgers()
    run(_lived(disk, everything, recorded))
    between: list[DiskImage] = []
    disk.watch_effects(lambda _effect: between.extend(disk.legal_images(1, Random(1))))
    rebuild_on(disk)
    disk.watch_effects(None)
    between = [each for each in between if not new_disk(image=each).exists(HOME / "ledgers" / "index")]
    assert between
    images: list[tuple[Effect, DiskImage]] = []
    choose = Random(2)
    for image in between:
        disk = new_disk(image=image)
        disk.watch_effects(
            lambda effect, disk=disk: images.extend((effect, each) for each in disk.legal_images(2, choose))
        )
        rebuild_on(disk)
    for number, (effect, image) in enumerate(images):
        try:
            run(_boot(new_disk(number, image=image), recorded))
        except (LogStoreError, AssertionError) as error:
            error.add_note(f"power cut before {effect}; {'; '.join(image.changes)}")
            raise


@pytest.mark.parametrize("scenario", [everything, garbage], ids=lambda scenario: str(scenario.__name__))
def test_a_rebuild_of_a_running_bookie_cut_off_at_any_effect(scenario: Scenario) -> None:
    """A start after it holds everything, and a rebuild after it finds everything."""
    disk, recorded = new_disk(), Ledgers()
    run(_lived(disk, scenario, recorded))
    images: list[tuple[Effect, DiskImage]] = []
    choose = Random(1)

    async def main() -> None:
        bookie = await opened(disk, recorded)
        disk.watch_effects(
            lambda effect: images.extend((effect, image) for image in disk.legal_images(4, choose))
        )
        await bookie.storage.rebuild_index()
        disk.watch_effects(None)
        await check(bookie.storage, recorded)
        await bookie.storage.close()

    run(main())
    assert len(images) > 20
    for number, (effect, image) in enumerate(images):
        again = new_disk(number, image=image)
        try:
            run(_boot(again, recorded))
            assert rebuild_on(again).lost == []
            run(_boot(again, recorded))
        except (LogStoreError, AssertionError) as error:
            error.add_note(f"power cut before {effect}; {'; '.join(image.changes)}")
            raise


async def _lived(disk: SimulatedDisk, scenario: Scenario, recorded: Ledgers) -> None:
    await scenario(await opened(disk, recorded))
    disk.process_crash()


async def _boot(disk: SimulatedDisk, recorded: Ledgers) -> None:
    bookie = await opened(disk, copy_of(recorded))
    assert not bookie.storage.limbo
    await check(bookie.storage, recorded)
    await bookie.storage.close()
