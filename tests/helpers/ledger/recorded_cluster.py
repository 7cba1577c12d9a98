"""Bookies and a store in the state in which a recording found them, and what our client sends them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from ledger.client import LedgerClient
from ledger.config import LedgerClientConfig, WireProtocol
from ledger.environment import SystemEnvironment
from ledger.metadata.drivers import open_store
from ledger.metadata.format.ledger import decode_ledger_metadata, encode_ledger_metadata
from ledger.metadata.store import MetadataStore
from ledger.model import BookieId, EntryId, Fragment, LedgerId, LedgerMetadata, QuorumSizes
from ledger.wire import v2, v3
from ledger.wire.messages import (
    AddRequest,
    BatchReadRequest,
    ReadRequest,
    V3AddRequest,
    V3ReadRequest,
    V3Request,
)
from tests.helpers.ledger.scripted_bookies import ScriptedBookie
from tests.helpers.wire.golden_frames import load
from tests.helpers.wire.recorded_conversations import Step, entry_added, held_before, java_conversations

OVERHEAD_BYTES = 36
"""Header and CRC32C before the payload; all recorded ledgers have this digest and an empty password."""


@dataclass(frozen=True)
class Recording:
    """One conversation of Java's client."""

    name: str
    steps: list[Step]
    values: list[LedgerMetadata]
    """Ledger metadata in the order in which it was written."""

    @property
    def version_3(self) -> bool:
        return "_v3_" in self.name

    @property
    def first_entry(self) -> int:
        """The first that its writer added before our eyes; the recording may begin later than the ledger."""
        return min(self._entries, default=0)

    @property
    def payloads(self) -> list[bytes]:
        """What its writer added, from entry 0 on."""
        return [self._entries.get(number, b"entry-%d" % number) for number in range(max(self._entries) + 1)]

    @property
    def _entries(self) -> dict[int, bytes]:
        entries = [entry_added(step) for step in self.steps if step.is_request]
        return {
            int.from_bytes(entry[8:16], "big"): entry[OVERHEAD_BYTES:]
            for entry in entries
            if entry is not None
        }

    def sent(self) -> Counter[str]:
        return Counter(_in_words(step.bookie, step.frame) for step in self.steps if step.is_request)


def recording(name: str) -> Recording:
    conversation = next(each for each in load("conversations.json") if each["name"] == name)
    texts = [
        step["value_hex"]
        for step in conversation["steps"]
        if step.get("value_hex") and "state" in (step.get("meaning") or {})
    ]
    values = [replace(decode_ledger_metadata(bytes.fromhex(text)), c_token=0) for text in texts]
    # One that meets a conflict with its equal is written once.
    return Recording(name, java_conversations()[name], list(dict.fromkeys(values)))


class _InOrder(random.Random):
    """Chance that takes bookies in the order that the recording has them in."""

    def __init__(self, order: Sequence[str]) -> None:
        super().__init__(0)
        self._order = order

    def sample(self, population: Any, k: int, *, counts: Any = None) -> list[Any]:
        known = [each for each in self._order if each in population]
        return [*known, *(each for each in population if each not in known)][:k]

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return 0


class _Environment(SystemEnvironment):
    def __init__(self, order: Sequence[str]) -> None:
        super().__init__()
        self.rng = _InOrder(order)


class _Store:
    """Gives out the recorded id and remembers every value that is written."""

    def __init__(self, store: MetadataStore, ledger_id: LedgerId) -> None:
        self._store = store
        self._ledger_id = ledger_id
        self.values: list[LedgerMetadata] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def create_new_ledger(self, metadata: LedgerMetadata) -> tuple[LedgerId, int]:
        self.values.append(replace(metadata, c_token=0))
        return self._ledger_id, await self._store.create_ledger(self._ledger_id, metadata)

    async def write_ledger(self, ledger_id: LedgerId, metadata: LedgerMetadata, version: int) -> int:
        written = await self._store.write_ledger(ledger_id, metadata, version)
        self.values.append(replace(metadata, c_token=0))
        return written


@dataclass(frozen=True)
class Scene:
    """Our client in the place of Java's."""

    recording: Recording
    ledger_id: LedgerId
    client: LedgerClient
    bookies: dict[str, ScriptedBookie]
    store: _Store

    def sent(self) -> Counter[str]:
        frames = [(name, frame) for name, bookie in self.bookies.items() for frame in bookie.frames]
        before = [f" add {number} " for number in range(self.recording.first_entry)]
        words = [_in_words(name, frame) for name, frame in frames]
        if not any("write_lac" in each for each in self.recording.sent()):
            before.append(
                " write_lac "
            )  # of a writer that happens to be idle, as Java's with an explicitLacInterval
        return Counter(each for each in words if not any(what in each for what in before))

    def written(self) -> list[bytes]:
        return [encode_ledger_metadata(value) for value in self.store.values]


@asynccontextmanager
async def scene_of(name: str, *, before: LedgerMetadata | None = None) -> AsyncIterator[Scene]:
    """The bookies hold what they held; the ledger exists if the recording does not create it."""
    found = recording(name)
    ledger_id = LedgerId(_ledger_of(found.steps))
    real = await open_store(f"memory:{name}-{random.getrandbits(60)}")
    await real.init_cluster()
    store = _Store(real, ledger_id)
    bookies = await _bookies(found, real)
    order = [bookie for value in found.values[-1:] for bookie in value.members()]
    first_order = [*found.values[0].fragments[0].ensemble, *order] if found.values else []
    config = LedgerClientConfig(
        wire=WireProtocol.V3 if found.version_3 else WireProtocol.V2,
        # One read at a time and no impatience: a recording has neither.
        speculative_read_s=30.0,
        recovery_read_ahead=1,
        lac_interval_s=60.0,
    )
    client = LedgerClient(store, config=config, environment=_Environment(first_order))  # type: ignore[arg-type]
    if before is not None:
        await real.create_ledger(ledger_id, before)
    await client.start()
    try:
        yield Scene(found, ledger_id, client, bookies, store)
    finally:
        await client.close()
        for bookie in bookies.values():
            bookie.go_away()
            await bookie.unregister()
        await real.close()


@asynccontextmanager
async def another_client(scene: Scene) -> AsyncIterator[LedgerClient]:
    """With connections of its own, on the same bookies and store."""
    client = LedgerClient(
        scene.client.store, config=scene.client.config, environment=scene.client.environment
    )
    await client.start()
    try:
        yield client
    finally:
        await client.close()


async def _bookies(found: Recording, store: MetadataStore) -> dict[str, ScriptedBookie]:
    held = held_before(found.steps, set())
    members = {bookie for value in found.values for bookie in value.members()}
    striped = found.values and found.values[0].quorum.ensemble > found.values[0].quorum.write
    everything = [entry for entries, _ in held.values() for entry in entries]
    bookies = {}
    for name in sorted({*held, *members}):
        bookie = bookies[name] = ScriptedBookie()
        entries, packets = held.get(name, ([], []))
        # What no answer shows of a bookie it may have held all the same: all of it, if ledgers are not striped.
        for entry in entries if striped else everything:
            ids = int.from_bytes(entry[:8], "big"), int.from_bytes(entry[8:16], "big")
            bookie.entries[ids] = entry
        for packet in packets:
            bookie.packets[int.from_bytes(packet[:8], "big")] = packet
        await bookie.listen()
        bookie.bookie_id = BookieId(name)
        await bookie.register(store)
    return bookies


def opened(
    quorum: QuorumSizes, ensemble: Sequence[str], custom: tuple[tuple[str, bytes], ...]
) -> LedgerMetadata:
    """The ledger as its writer created it."""
    members = tuple(BookieId(each) for each in ensemble)
    return LedgerMetadata(quorum=quorum, fragments=(Fragment(EntryId(0), members),), custom=custom)


def _ledger_of(steps: list[Step]) -> int:
    for step in steps:
        body = memoryview(step.frame)[4:]
        if step.is_request:
            request: Any = v3.decode_request(body).body if v3.looks_like_v3(body) else v2.decode_request(body)
            return int(request.ledger_id)
    raise AssertionError("a recording without a request")


def words_of(bookie: ScriptedBookie) -> str:
    """All that came, also what it did not hear."""
    return "\n".join(_in_words("", frame) for frame in bookie.frames)


def _in_words(bookie: str, frame: bytes) -> str:
    """The frame, its transaction id aside, after what it is; whom a plain or a recovery read asks is free."""
    body = memoryview(frame)[4:]
    if not v3.looks_like_v3(body):
        packet = v2.decode_request(body)
        return f"{_kind_of(packet, bookie)} {frame.hex()}"
    request = v3.decode_request(body)
    message = request.body
    if isinstance(message, V3ReadRequest) and message.timeout_ms is not None:
        message = replace(message, timeout_ms=0)  # what is left of the reader's patience
    alike = v3.encode_request(replace(request, txn_id=0, body=message))
    return f"{_kind_of(request, bookie)} {alike.hex()}"


def _kind_of(request: Any, bookie: str) -> str:
    message = request.body if isinstance(request, V3Request) else request
    match message:
        case AddRequest() | V3AddRequest():
            return f"{bookie} add {message.entry_id}"
        case BatchReadRequest():
            return f"batch read {message.entry_id}"
        case V3ReadRequest(previous_lac=int()):
            return f"long poll above {message.previous_lac}"
        case ReadRequest() | V3ReadRequest():
            fences = message.master_key is not None
            who = (
                f"{bookie} fence"
                if fences and message.entry_id < 0
                else "recovery read"
                if fences
                else "read"
            )
            return f"{who} {message.entry_id}"
    assert isinstance(request, V3Request)
    return f"{bookie} {request.operation.name.lower()}"
