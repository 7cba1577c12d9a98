"""A process that competes for compare-and-set records of a metadata store, and records every call for C16.

    python -m tests.helpers.components.register_client URI PIPE NAME SEED LOCK_WAIT_S

Moments are nanoseconds of CLOCK_MONOTONIC, which the processes of one machine share. A line is written before its
call begins, or after it has ended; a call without an end was pending when its process died. Ends on SIGTERM.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any

from dlog.blocking.loop_thread import fastest_loop
from dlog.testing.metadata.history import CallOutcome, RegisterCall, RegisterHistory
from ledger.errors import LogStoreError, MetadataUnavailableError
from ledger.metadata.drivers import open_store
from ledger.metadata.sqlite import engine
from ledger.metadata.store import MetadataStore

_RECORD_S = 0.5
"""Every now and then all go on to the next record, so that creations are contended, too."""


class _LoggedHistory(RegisterHistory):
    """Writes each call into a pipe, at its beginning and at its end."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._fd = os.open(path, os.O_WRONLY)

    def log(self, call: RegisterCall) -> None:
        value = None if call.value is None else call.value.decode()
        row = [call.client, call.register, call.operation, call.expected, value]
        row += [call.invoked, call.returned, call.outcome.value, call.version]
        os.write(self._fd, json.dumps(row).encode() + b"\n")


def read_registers(paths: Iterable[Path]) -> RegisterHistory:
    """The calls of all processes. A begun call is replaced by its end."""
    calls: dict[tuple[str, int], RegisterCall] = {}
    for path in paths:
        data = path.read_text()
        for line in data[: data.rfind("\n") + 1].splitlines():
            client, register, operation, expected, value, invoked, returned, outcome, version = json.loads(
                line
            )
            found = None if value is None else value.encode()
            calls[client, invoked] = RegisterCall(
                *(client, register, operation, expected, found, invoked, returned),
                CallOutcome(outcome),
                version,
            )
    history = RegisterHistory()
    history.calls = sorted(calls.values(), key=lambda call: call.invoked)
    return history


class RegisterClient:
    def __init__(self, store: MetadataStore, history: _LoggedHistory, name: str, random: Random) -> None:
        self._store = store
        self._history = history
        self._name = name
        self._random = random
        self._known: dict[str, int] = {}
        self._count = 0

    async def run(self) -> None:
        while True:
            register = f"/registers/{int(time.monotonic() / _RECORD_S)}"
            await self._do_one(register)
            await asyncio.sleep(self._random.choice([0.0, 0.0, 0.001, 0.01]))

    async def _do_one(self, register: str) -> None:
        self._count += 1
        value = f"{self._name}:{self._count}".encode()
        version = self._known.get(register)
        kind = self._random.random()
        if version is None and kind < 0.5:
            call = RegisterCall(self._name, register, "create", None, value, time.monotonic_ns())
            await self._follow(call, self._store.create_record(register, value), lambda it: (it, value))
        elif version is None or kind < 0.4:
            call = RegisterCall(self._name, register, "read", None, None, time.monotonic_ns())
            reading = self._store.read_record(register)
            await self._follow(call, reading, lambda it: (it.version, it.value))
        else:
            call = RegisterCall(self._name, register, "write", version, value, time.monotonic_ns())
            writing = self._store.write_record(register, value, version)
            await self._follow(call, writing, lambda it: (it, value))

    async def _follow(
        self, call: RegisterCall, answer: Awaitable[Any], found: Callable[[Any], tuple[int, bytes]]
    ) -> None:
        self._history.log(call)
        try:
            await self._history.follow(call, answer, found)
        except LogStoreError as error:
            self._known.pop(call.register, None)
            if call.outcome in (CallOutcome.NOT_DONE, CallOutcome.UNKNOWN):
                print(f"{call.outcome.value}: {type(error).__name__}: {error}", flush=True)
                await asyncio.sleep(0.02)
        finally:
            call.returned = time.monotonic_ns()
            self._history.log(call)
        if call.outcome is CallOutcome.DONE and call.version is not None:
            self._known[call.register] = call.version


async def _opened(uri: str) -> MetadataStore:
    """It may begin in the middle of a fault that no server answers in."""
    while True:
        try:
            return await open_store(uri)
        except MetadataUnavailableError as error:
            print(error, flush=True)


async def main(uri: str, path: str, name: str, seed: str) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    store = await _opened(uri)
    try:
        print("127.0.0.1:0 is ready", flush=True)
        await RegisterClient(store, _LoggedHistory(Path(path)), name, Random(seed)).run()
    except asyncio.CancelledError:
        print(f"{name} ended", flush=True)
    finally:
        await store.close()


if __name__ == "__main__":
    *given, lock_wait_s = sys.argv[1:]
    engine.BUSY_WAIT_S = float(lock_wait_s)
    with asyncio.Runner(loop_factory=fastest_loop) as runner:
        runner.run(main(*given))
