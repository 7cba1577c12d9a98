"""RocksDB under the bookie's index: killed, damaged, without space or descriptors, opened twice.

What was synced is there, what is there is the beginning of what was written, and damage is an error of ours.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from bookie_server.disk.rocksdb_store import open_key_values
from bookie_server.errors import StorageInUseError
from tests.helpers.components.index_writer import SYNC_EVERY, batch, written_batches
from tests.helpers.processes.strace import needs_strace, strace
from tests.helpers.repository import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.slow]

BATCHES = 60


def program(name: str, *arguments: object) -> list[str]:
    return [sys.executable, "-m", f"tests.helpers.components.{name}", *map(str, arguments)]


def read(directory: Path, *arguments: object) -> str:
    done = subprocess.run(
        program("index_reader", directory, *arguments),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr[-2000:])
    return done.stdout.strip()


def test_kills_leave_a_beginning_with_all_that_was_synced(tmp_path: Path) -> None:
    random, first, synced = Random(1), 0, 0
    for _ in range(5):
        with subprocess.Popen(
            program("index_writer", tmp_path / "index", first), cwd=ROOT, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            has = int(process.stdout.readline().split()[1])
            assert has >= synced
            assert has == first or first == 0 or has >= synced
            time.sleep(random.uniform(0.02, 0.5))
            process.kill()
            lines = process.stdout.read().splitlines()
        synced = max([synced, *(int(line.split()[1]) for line in lines if line.startswith("synced "))])
        answer = read(tmp_path / "index")
        first = int(answer.removeprefix("has "))
        assert first >= synced
    assert synced > 10 * SYNC_EVERY


def test_a_limit_of_space_is_an_error_and_loses_nothing_synced(tmp_path: Path) -> None:
    for limit in (0, 1000, 100_000, 400_000):
        directory = tmp_path / f"index-{limit}"
        done = subprocess.run(
            program("index_writer", directory, 0, limit),
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        *lines, last = done.stdout.splitlines()
        assert last.startswith("failed ") and str(directory) in last
        synced = max([0, *(int(line.split()[1]) for line in lines if line.startswith("synced "))])
        assert int(read(directory).removeprefix("has ")) >= synced


@needs_strace
def test_a_quota_that_is_used_up_is_a_full_disk(tmp_path: Path) -> None:
    """A bookie goes on read-only then, as when a journal file or an entry log meets it."""
    directory = tmp_path / "index"
    with subprocess.Popen(
        program("index_writer", directory, 0), cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "has 0\n"
        with strace(process.pid, "openat:error=EDQUOT"):
            *lines, last = process.stdout.read().splitlines()
    assert last.startswith("failed ") and f"DiskFullError: no space left to write index {directory}" in last
    synced = max([0, *(int(line.split()[1]) for line in lines)])
    assert int(read(directory).removeprefix("has ")) >= synced


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Several tables, of several flushes."""
    directory = tmp_path_factory.mktemp("sound") / "index"
    store = open_key_values(directory)
    for number in range(BATCHES):
        store.write(batch(number))
        if number % 20 == 19:
            store.sync()
    store.close()
    return directory


def damages(sound: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(sound.iterdir()):
        if path.stat().st_size and path.name not in ("LOCK", "IDENTITY") and not path.name.startswith("LOG"):
            for kind in ("removed", "empty", "cut", "flipped", "zeroed"):
                yield path.name, kind


def damage(path: Path, kind: str, random: Random) -> None:
    data = bytearray(path.read_bytes())
    place = random.randrange(len(data))
    match kind:
        case "removed":
            path.unlink()
            return
        case "empty":
            data.clear()
        case "cut":
            del data[place:]
        case "flipped":
            data[place] ^= 1 << random.randrange(8)
        case "zeroed":
            data[place : place + 512] = bytes(len(data[place : place + 512]))
    path.write_bytes(data)


def test_damage_is_refused_or_leaves_a_beginning(sound: Path, tmp_path: Path) -> None:
    """In any one file. A cut list of tables reads as an older store, which the index detects by its generation."""
    random, refused, read_back = Random(2), 0, 0
    for number, (name, kind) in enumerate(damages(sound)):
        copy = tmp_path / str(number)
        shutil.copytree(sound, copy)
        damage(copy / name, kind, random)
        answer = read(copy)
        if answer.startswith("refused "):
            refused += 1
            assert str(copy) in answer
        else:
            read_back += 1
            count = int(answer.removeprefix("has "))
            assert count == BATCHES or name.startswith(("MANIFEST", "CURRENT")), (name, kind, answer)
        shutil.rmtree(copy)
    assert refused > 10 and read_back


def test_too_few_descriptors_are_named_and_are_no_damage(sound: Path, tmp_path: Path) -> None:
    """Nothing is wrong with the files: advice to rebuild them, or to stop another process, would mislead."""
    copy = tmp_path / "index"
    shutil.copytree(sound, copy)
    answers = {read(copy, descriptors).partition(":")[0] for descriptors in (3, 4, 5, 6, 8, 12)}
    assert answers == {"refused TooManyFilesError", f"has {BATCHES}"}
    assert read(copy) == f"has {BATCHES}"


def test_damage_in_a_directory_with_any_name_is_called_damage(sound: Path, tmp_path: Path) -> None:
    """RocksDB's error has the path of the file, which once decided what the error was."""
    for name in ("BLOCKS", "Too many open files", "No space left on device"):
        copy = tmp_path / name
        shutil.copytree(sound, copy)
        next(copy.glob("*.sst")).unlink()
        assert read(copy).startswith("refused IndexDamagedError"), name


def test_a_second_process_is_refused(sound: Path, tmp_path: Path) -> None:
    copy = tmp_path / "index"
    shutil.copytree(sound, copy)
    store = open_key_values(copy)
    try:
        assert read(copy).startswith("refused StorageInUseError")
        assert written_batches(store) == BATCHES
        with pytest.raises(StorageInUseError):
            open_key_values(copy)
    finally:
        store.close()
    assert read(copy) == f"has {BATCHES}"
