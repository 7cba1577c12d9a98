"""What every index store does alike, RocksDB and the simulated one. Crashes: tests/unit/testing."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Event

import pytest

from bookie_server.disk import rocksdb_store
from bookie_server.disk.disk import Disk
from bookie_server.disk.rocksdb_store import KeyValues
from bookie_server.disk.system_disk import SystemDisk
from bookie_server.errors import DiskFailedError, StorageError, StorageInUseError, TooManyFilesError
from dlog.testing.disk.disk import SimulatedDisk
from tests.helpers.processes.descriptors import without_descriptors
from tests.helpers.simulation.disk import new_disk


@pytest.fixture(params=["rocksdb", "simulated"])
def disk(request: pytest.FixtureRequest) -> Disk:
    return SystemDisk() if request.param == "rocksdb" else new_disk()


@pytest.fixture
def store(disk: Disk, tmp_path: Path) -> Iterator[KeyValues]:
    store = disk.open_key_values(tmp_path / "index")
    yield store
    store.close()


def test_a_write_is_visible_immediately(store: KeyValues) -> None:
    assert store.get(b"a") is None
    store.write([(b"a", b"1"), (b"b", b""), (b"a", b"2")])
    assert (store.get(b"a"), store.get(b"b"), store.get(b"c")) == (b"2", b"", None)
    store.write([], [b"a", b"nowhere"])
    assert store.get(b"a") is None


def test_deletes_come_before_puts(store: KeyValues) -> None:
    """What one write puts is there after it, whatever it deletes."""
    store.write([(bytes([number]), b"old") for number in range(4)])
    store.write([(b"\x02", b"new")], [b"\x01", b"\x02"])
    assert list(store.scan(b"", b"\xff")) == [(b"\x00", b"old"), (b"\x02", b"new"), (b"\x03", b"old")]


def test_floor_finds_the_greatest_key_at_or_below(store: KeyValues) -> None:
    assert store.floor(b"x") is None
    store.write([(b"b", b"1"), (b"d", b"2"), (b"d\0", b"3")])
    found = {key: store.floor(key) for key in (b"a", b"b", b"c", b"d", b"d\0", b"z")}
    assert found == {
        b"a": None,
        b"b": (b"b", b"1"),
        b"c": (b"b", b"1"),
        b"d": (b"d", b"2"),
        b"d\0": (b"d\0", b"3"),
        b"z": (b"d\0", b"3"),
    }


def test_floor_and_scan_end_at_their_bounds(store: KeyValues) -> None:
    """Also where both ends have a prefix in common, at which an iterator may stop by itself."""
    one, two = b"I" + bytes(7) + b"\x01", b"I" + bytes(7) + b"\x02"
    store.write([(one + b"a", b"1"), (one + b"c", b"3"), (two + b"b", b"2")])
    assert store.floor(one + b"b", one) == (one + b"a", b"1")
    assert store.floor(one + b"b", one + b"a") == (one + b"a", b"1")
    assert store.floor(one + b"b", one + b"b") is None
    assert store.floor(two + b"a", two) is None
    assert store.floor(two + b"a", one) == (one + b"c", b"3")
    assert store.floor(two + b"z", two + b"a") == (two + b"b", b"2")
    assert [key for key, _ in store.scan(one, one + b"c")] == [one + b"a"]
    assert [key for key, _ in store.scan(one, two)] == [one + b"a", one + b"c"]
    assert [key for key, _ in store.scan(one + b"b", two + b"z")] == [one + b"c", two + b"b"]
    assert list(store.scan(two + b"c", two + b"z")) == []


def test_a_scan_sees_one_moment(store: KeyValues) -> None:
    """What is written while it runs does not disturb it."""
    store.write([(bytes([number]), b"old") for number in range(5)])
    scan = store.scan(b"\x01", b"\x04")
    seen = [next(scan)]
    store.write([(b"\x02", b"new"), (b"\x02\x00", b"new")], [b"\x03"])
    seen += scan
    assert seen == [(b"\x01", b"old"), (b"\x02", b"old"), (b"\x03", b"old")]
    assert next(store.scan(b"x", b"x"), None) is None


def test_what_was_synced_is_there_when_opened_again(disk: Disk, tmp_path: Path) -> None:
    """Of the rest a prefix of the writes."""
    store = disk.open_key_values(tmp_path / "index")
    for number in range(20):
        store.write([(b"%03d" % number, b"x")])
        if number == 9:
            store.sync()
    store.close()
    for _ in range(2):
        store = disk.open_key_values(tmp_path / "index")
        found = [int(key) for key, _ in store.scan(b"", b"\xff")]
        assert len(found) >= 10
        assert found == list(range(len(found)))
        store.reopen()
        assert len(list(store.scan(b"", b"\xff"))) >= 10
        store.close()


def test_another_store_takes_its_place(disk: Disk, tmp_path: Path) -> None:
    here, other = tmp_path / "index", tmp_path / "other"
    for directory in (here, other):
        made = disk.open_key_values(directory)
        made.write([(b"name", directory.name.encode())])
        made.sync()
        if directory == other:
            made.close()
        else:
            store = made
    store.write([(b"unsynced", b"")])

    def install() -> None:
        disk.rename_durably(here, tmp_path / "old")
        disk.rename_durably(other, here)

    store.exchange(install)
    assert store.get(b"name") == b"other" and store.get(b"unsynced") is None
    store.write([(b"more", b"")])
    store.sync()
    store.close()
    assert [key for key, _ in disk.open_key_values(here).scan(b"", b"\xff")] == [b"more", b"name"]
    assert disk.open_key_values(tmp_path / "old").get(b"name") == b"index"


def test_after_an_exchange_that_fails_nothing_is_open(disk: Disk, tmp_path: Path) -> None:
    store = disk.open_key_values(tmp_path / "index")
    store.write([(b"a", b"1")])
    store.sync()

    def install() -> None:
        raise DiskFailedError("no", path=tmp_path, missing=False)

    with pytest.raises(DiskFailedError):
        store.exchange(install)
    with pytest.raises(StorageError):
        store.get(b"a")
    store.close()


def test_a_store_is_open_once(disk: Disk, tmp_path: Path) -> None:
    store = disk.open_key_values(tmp_path / "index")
    with pytest.raises(StorageInUseError, match="index"):
        disk.open_key_values(tmp_path / "index")
    store.close()
    disk.open_key_values(tmp_path / "index").close()


def test_a_closed_store_does_not_answer(disk: Disk, tmp_path: Path) -> None:
    store = disk.open_key_values(tmp_path / "index")
    store.close()
    with pytest.raises(StorageError):
        store.get(b"a")


@pytest.mark.parametrize("seed", range(8))
def test_the_same_calls_get_the_same_answers(seed: int, tmp_path: Path) -> None:
    choose = Random(seed)
    stores = [disk.open_key_values(tmp_path / "index") for disk in (SystemDisk(), new_disk())]

    def key() -> bytes:
        start = choose.choice((b"", b"I" + bytes(7)))
        return start + bytes(choose.randrange(3) for _ in range(choose.randint(1, 3)))

    for _ in range(150):
        puts = [(key(), choose.randbytes(2)) for _ in range(choose.randint(0, 4))]
        deletes = [key() for _ in range(choose.randint(0, 2))]
        probe, first, end = key(), *sorted((key(), key()))
        answers: list[object] = []
        for store in stores:
            store.write(puts, deletes)
            floors = (store.floor(probe), store.floor(end, first))
            answers.append((store.get(probe), floors, list(store.scan(first, end))))
        assert answers[0] == answers[1]
    for store in stores:
        store.sync()
        store.close()


@contextmanager
def none_left(disk: Disk) -> Iterator[None]:
    """The process can open nothing more."""
    if isinstance(disk, SimulatedDisk):
        disk.faults.arm("no_descriptor", "index")
        yield
    else:
        with without_descriptors():
            yield


def test_without_a_descriptor_it_is_not_reopened_and_says_why_until_it_is(disk: Disk, tmp_path: Path) -> None:
    store = disk.open_key_values(tmp_path / "index")
    store.write([(b"a", b"1")])
    store.sync()
    with none_left(disk), pytest.raises(TooManyFilesError):
        store.reopen()
    for _ in range(2):
        with pytest.raises(StorageError, match="too many open files") as raised:
            store.get(b"a")
        assert isinstance(raised.value.__cause__, TooManyFilesError)
        with pytest.raises(TooManyFilesError):
            store.write([(b"b", b"")])
    store.reopen()
    assert store.get(b"a") == b"1"
    store.close()


def test_what_could_not_be_reopened_is_opened_once_it_can_be(disk: Disk, tmp_path: Path) -> None:
    store = disk.open_key_values(tmp_path / "index")
    store.write([(b"a", b"1")])
    store.sync()
    assert store.is_open
    with none_left(disk), pytest.raises(TooManyFilesError):
        store.reopen()
    assert not store.is_open
    with none_left(disk), pytest.raises(TooManyFilesError):
        store.ensure_open()
    store.ensure_open()
    assert store.is_open
    store.write([(b"b", b"2")])
    store.ensure_open()
    assert (store.get(b"a"), store.get(b"b")) == (b"1", b"2"), "one that is open forgets nothing"
    store.close()


def test_its_own_logs_do_not_grow_with_each_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bookie syncs its index at each checkpoint, for as long as its process lives."""
    monkeypatch.setattr(rocksdb_store, "_LOG_BYTES_MAX", 32 * 1024)
    monkeypatch.setattr(rocksdb_store, "_MANIFEST_BYTES_MAX", 4 * 1024)
    store = SystemDisk().open_key_values(tmp_path / "index")
    for number in range(100):
        store.write([(b"a", bytes([number]))])
        store.sync()
    store.close()
    own = [path for path in (tmp_path / "index").iterdir() if path.name.startswith(("LOG", "MANIFEST"))]
    assert sum(path.stat().st_size for path in own) < 128 * 1024


def test_readers_notice_nothing_while_it_is_reopened(tmp_path: Path) -> None:
    """A full disk has RocksDB opened anew, by the thread that writes, while others read."""
    store = SystemDisk().open_key_values(tmp_path / "index")
    store.write([(bytes([number]), b"value") for number in range(200)])
    store.sync()

    def read() -> None:
        while not done.is_set():
            assert store.get(b"\x05") == b"value"
            assert store.floor(b"\xff") == (b"\xc7", b"value")
            assert len(list(store.scan(b"", b"\xff"))) == 200

    done = Event()
    with ThreadPoolExecutor(3) as threads:
        readers = [threads.submit(read) for _ in range(3)]
        try:
            for _ in range(20):
                store.reopen()
        finally:
            done.set()
        for each in readers:
            each.result()
    store.close()
