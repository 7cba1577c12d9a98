"""Apache's client in a JVM of its own, driven by lines: `tests/helpers/apache/java/Driver.java`.

One process serves a whole test session. Calls may overlap: a long poll waits while another call appends.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import shutil
import subprocess
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.helpers.apache.java_libs import class_path, java

SOURCES = Path(__file__).parent / "java"
OPTIONS = ("-Xmx768m", "-XX:MaxDirectMemorySize=512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
COMPILE_S = 120
CALL_S = 90.0
_SHOWN_BYTES = 64


class JavaError(Exception):
    """Apache's client threw. `code` is BookKeeper's result code; 1000 stands for any other exception."""

    def __init__(self, code: int, name: str, text: str) -> None:
        super().__init__(f"{name} ({code}): {text}")
        self.code = code
        self.name = name


def compile_driver(directory: Path) -> str:
    """The class path of the compiled driver with Apache's jars. Skips the test where there is no javac."""
    libs = class_path()
    if shutil.which("javac") is None:
        pytest.skip("driving Apache's client needs a Java compiler: install openjdk-17-jdk-headless")
    command = ["javac", "-cp", libs, "-d", str(directory), *map(str, sorted(SOURCES.glob("*.java")))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return f"{libs}:{directory}"  # the jars first: the archive of their classes fits no other order


class JavaProcess:
    """The JVM. Every call returns the words of its answer or raises JavaError."""

    def __init__(self, class_path: str, log: Path) -> None:
        self._ids = itertools.count(1)
        self._pending: dict[str, Future[list[str]]] = {}
        self._lock = threading.Lock()
        self.log = log
        """What Apache's client logs."""
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [*java(*OPTIONS), "-cp", class_path, "Driver"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._reader = threading.Thread(target=self._read_answers, name="answers of the JVM", daemon=True)
        self._reader.start()

    async def call(self, verb: str, *words: object) -> list[str]:
        async with asyncio.timeout(CALL_S):
            return await asyncio.wrap_future(self.start(verb, *words))

    def start(self, verb: str, *words: object) -> Future[list[str]]:
        """Send the command; the future brings its answer."""
        future: Future[list[str]] = Future()
        assert self._process.stdin is not None
        with self._lock:
            name = str(next(self._ids))
            self._pending[name] = future
            print(name, verb, *words, file=self._process.stdin, flush=True)
        return future

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _read_answers(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            name, outcome, *words = line.rstrip("\n").split(" ")
            future = self._pending.pop(name)
            if future.cancelled():
                continue
            if outcome == "ok":
                future.set_result(words)
            else:
                future.set_exception(JavaError(int(words[0]), words[1], " ".join(words[2:])))
        for future in list(self._pending.values()):
            future.set_exception(JavaError(0, "gone", "the JVM has ended"))


@dataclass(frozen=True)
class JavaLedger:
    """An open handle of Apache's client."""

    process: JavaProcess
    handle: str
    ledger_id: int
    ensemble: tuple[str, ...] = ()
    """The first fragment's, for a ledger that was created."""
    lac: int = -1
    """As of the open."""
    length: int = 0

    async def call(self, verb: str, *words: object) -> list[str]:
        return await self.process.call(verb, self.handle, *words)

    async def add(self, payload: bytes) -> int:
        return int((await self.call("add", word_of(payload)))[0])

    async def add_filled(self, size: int) -> int:
        """An entry of so many bytes, `filled(size)`."""
        return int((await self.call("add", f"fill:{size}"))[0])

    async def add_many(self, count: int) -> int:
        """So many entries at once, each with the payload that its id tells; the last one's id."""
        return int((await self.call("add-many", count))[0])

    async def read(self, first: int, last: int) -> list[str]:
        """Payloads as `shown` describes them; their ids are checked."""
        return _payloads(first, await self.call("read", first, last))

    async def batch_read(self, first: int, entries: int, size: int) -> list[str]:
        return _payloads(first, await self.call("batch-read", first, entries, size))

    async def read_all(self) -> list[str]:
        """Everything up to the LAC that the handle knows."""
        lac = int((await self.call("lac"))[0])
        return await self.read(0, lac) if lac >= 0 else []

    async def close(self) -> None:
        await self.call("close")


@dataclass(frozen=True)
class JavaClient:
    """One client of Apache's, with its settings."""

    process: JavaProcess
    name: str

    async def create(
        self,
        ensemble: int,
        write: int,
        ack: int,
        digest: str,
        password: bytes = b"",
        custom: dict[str, bytes] | None = None,
        mode: str = "",
    ) -> JavaLedger:
        """`mode` is "", "deferred" for DEFERRED_SYNC, or "advanced" for ids chosen by the caller."""
        pairs = ",".join(f"{key}={value.hex()}" for key, value in (custom or {}).items()) or "-"
        words = [self.name, ensemble, write, ack, _DIGESTS[digest], word_of(password), pairs, mode]
        handle, ledger_id, members = await self.process.call("create", *words)
        return JavaLedger(self.process, handle, int(ledger_id), tuple(members.split(",")))

    async def open(
        self, ledger_id: int, digest: str, password: bytes = b"", *, recover: bool = True
    ) -> JavaLedger:
        how = "recover" if recover else "look"
        words = [self.name, ledger_id, _DIGESTS[digest], word_of(password), how]
        handle, lac, length = await self.process.call("open", *words)
        return JavaLedger(self.process, handle, ledger_id, (), int(lac), int(length))

    async def delete(self, ledger_id: int) -> None:
        await self.process.call("delete", self.name, ledger_id)

    async def rewrite_metadata(self, ledger_id: int) -> None:
        """Read, decode, encode and write it with nothing changed."""
        await self.process.call("rewrite", self.name, ledger_id)


def java_client(process: JavaProcess, name: str, uri: str, **settings: object) -> JavaClient:
    """A client for this cluster; settings are those of Apache's ClientConfiguration."""
    pairs = [f"{key}={value}" for key, value in settings.items()]
    process.start("client", name, uri, *pairs).result(CALL_S)
    return JavaClient(process, name)


_DIGESTS = {"CRC32C": "CRC32C", "CRC32": "CRC32", "HMAC": "MAC", "DUMMY": "DUMMY"}


def word_of(payload: bytes) -> str:
    return payload.hex() or "-"


def shown(payload: bytes) -> str:
    """How the driver shows a payload: small ones in full, larger ones by size and SHA-1."""
    if len(payload) <= _SHOWN_BYTES:
        return word_of(payload)
    return f"{len(payload)}:{hashlib.sha1(payload).hexdigest()}"


def filled(size: int) -> bytes:
    """The bytes 0, 1 … 255, 0 …, as the driver fills an entry."""
    return (bytes(range(256)) * (size // 256 + 1))[:size]


def _payloads(first: int, words: list[str]) -> list[str]:
    pairs = [word.split("=", 1) for word in words]
    assert [int(entry_id) for entry_id, _ in pairs] == list(range(first, first + len(pairs)))
    return [payload for _, payload in pairs]
