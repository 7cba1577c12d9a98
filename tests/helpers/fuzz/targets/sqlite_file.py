"""The SQLite file of a metadata store, with bytes of it changed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ledger.errors import LogStoreError
from ledger.metadata.sqlite.engine import Kind, SqliteEngine, Work
from ledger.metadata.transactions import bookies, cluster, ledgers, records
from tests.helpers.fuzz.cutting import Cutter
from tests.helpers.fuzz.target import Run, Target

_JOBS: tuple[Any, ...] = (
    cluster.read_instance_id,
    cluster.read_layout,
    ledgers.new_id,
    bookies.bookies,
    lambda tx: ledgers.read(tx, 7),
    lambda tx: ledgers.page(tx, 0, 100),
    lambda tx: records.read(tx, records.PREFIX, "/a/b"),
    lambda tx: records.children(tx, "/a"),
    lambda tx: records.write(tx, records.PREFIX, "/a/b", b"new", 0),
)


def _populate(tx: Any) -> None:
    cluster.init(tx, "instance")
    for number in range(5):
        ledgers.create(tx, 7 + number, b"ledger %d " % number * 20, None)
        records.create(tx, records.PREFIX, f"/a/{'bcdef'[number]}", b"record " * 10)
    bookies.register(tx, "b:1", b"", "session", False)


@contextmanager
def session() -> Iterator[Run]:
    """Each change is three bytes, an offset and what is flipped there; every job ends well or with our error."""
    with tempfile.TemporaryDirectory() as directory:
        good = Path(directory) / "good.db"
        engine = SqliteEngine(str(good))
        [work] = _ran(engine, [Work(Kind.CREATE, _populate)])
        assert work.error is None, work.error
        engine.close()
        image = good.read_bytes()

        def run(data: bytes) -> None:
            cutter, changed = Cutter(data), bytearray(image)
            if cutter.below(8) == 7:
                del changed[cutter.number(2) :]
            while cutter.left and changed:
                changed[cutter.number(2) % len(changed)] ^= cutter.number()
            path = Path(directory) / "changed.db"
            path.write_bytes(changed)
            damaged = SqliteEngine(str(path))
            try:
                for job in _JOBS:
                    for done in _ran(damaged, [Work(Kind.WRITE, job)]):
                        assert done.error is None or isinstance(done.error, LogStoreError), done.error
            finally:
                damaged.close()
                for left in Path(directory).glob("changed.db-*"):
                    left.unlink()

        yield run


def _ran(engine: SqliteEngine, batch: list[Work]) -> list[Work]:
    engine.run(batch)
    return batch


def _changes() -> Iterator[bytes]:
    yield b"\0"
    yield b"\7\x20\x00"
    for offset in (16, 100, 4090, 4100, 8100, 8150):
        yield b"\0" + offset.to_bytes(2, "big") + b"\x01" + (offset + 40).to_bytes(2, "big") + b"\x80"


TARGETS = [
    Target(
        name="sqlite-files",
        session=session,
        corpus=_changes,
        input_bytes_max=32,
        memory_base=1 << 20,
        cost=8,
    ),
]
