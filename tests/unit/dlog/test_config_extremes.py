"""Settings at the ends of their ranges, alone and in pairs: refused when they are made, or all of it works.

Nothing may wait for something that a setting makes impossible: an entry that no ledger takes, a frame that no answer
fits into, a window in which nothing is read.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from dataclasses import replace
from typing import Any

import pytest

from dlog.client import LogClient
from dlog.config import LogConfig
from dlog.core.batching import BatchLimits
from dlog.core.degraded import DegradedPolicy
from dlog.core.rotation_triggers import RotationLimits
from dlog.format.entry import ENTRY_OVERHEAD_BYTES
from dlog.read.config import ReaderConfig
from ledger.config import LedgerClientConfig, Visibility, WireProtocol
from ledger.errors import ConfigurationError
from ledger.model import ENTRY_BYTES_MAX, DigestType, QuorumSizes
from tests.helpers.log.scripted_log import QUICK, ScriptedLog, scripted_log

LIMIT_S = 15.0
SMALLEST = ENTRY_OVERHEAD_BYTES + 1024

EXTREMES: dict[str, tuple[Any, ...]] = {
    "buffer_bytes_max": (1, SMALLEST, 1024 * 1024, 2**40),
    "unacknowledged_bytes_max": (1, 2**40),
    "read_ahead_bytes_max": (1, 2**40),
    "batching.entry_bytes_max": (SMALLEST, ENTRY_BYTES_MAX),
    "batching.batch_bytes": (1, 2**40),
    "batching.batch_count_max": (1, 2**40),
    "batching.linger_s": (0.0, 1.0),
    "ledger.entry_bytes_max": (64, SMALLEST, ENTRY_BYTES_MAX),
    "ledger.frame_bytes_max": (1, 2**30, 2**40),
    "ledger.send_queue_bytes_max": (0, 1024**2, 2**30, 2**40),
    "ledger.recovery_read_ahead": (0, 1, 10_000),
    "ledger.read_window_bytes": (0, 1, 2**40),
    "ledger.speculative_read_s": (0.0, 0.001, 60.0),
    "ledger.replace_backoff_s": (0.0, 0.001),
    "ledger.change_hold_s": (0.0, 0.001),
    "ledger.lac_interval_s": (0.0, 0.001, 60.0),
    "ledger.wire": tuple(WireProtocol),
    "rotation.bytes_max": (1,),
    "rotation.entries_max": (1,),
    "rotation.interval_min_s": (0.001, 3600.0),
    "rotation.age_s": (0.001,),
    "rotation.idle_s": (0.001,),
    "visibility": tuple(Visibility),
    "degraded": tuple(DegradedPolicy),
    "digest_type": (DigestType.HMAC, DigestType.DUMMY),
    "quorum": (QuorumSizes(ensemble=1, write=1, ack=1), QuorumSizes(ensemble=3, write=2, ack=2)),
    "store_probe_s": (0.001,),
    "late_success_s": (0.001, math.inf),
    "hold_limit_s": (math.nan, math.inf),
    "reader.read_ahead_bytes": (0, 1, 2**40),
    "reader.fetch_bytes": (1, 2**40),
    "reader.fetch_entries_max": (1, 2**40),
    "reader.slow_poll_s": (0.1, math.nan),
}
SINGLE = [((name, value),) for name, values in EXTREMES.items() for value in values]
PAIRS = [
    (first, second) for (first,), (second,) in itertools.combinations(SINGLE, 2) if first[0] != second[0]
]


def configured(settings: tuple[tuple[str, Any], ...]) -> tuple[LogConfig, ReaderConfig]:
    """QUICK with these values in it."""
    parts: dict[str, dict[str, Any]] = {"": {}, "batching": {}, "ledger": {}, "rotation": {}, "reader": {}}
    for name, value in settings:
        part, _, field = name.rpartition(".")
        parts[part][field] = value
    config = replace(
        QUICK,
        batching=BatchLimits(**parts["batching"]),
        ledger=replace(QUICK.ledger, **parts["ledger"]),
        rotation=RotationLimits(**parts["rotation"]),
        **parts[""],
    )
    return config, ReaderConfig(**parts["reader"])


async def use(log: ScriptedLog, name: str, settings: tuple[tuple[str, Any], ...]) -> bool:
    """False if the settings are refused; otherwise appends of all sizes come back, over a rotation and a takeover."""
    try:
        config, reading = configured(settings)
    except ConfigurationError:
        return False
    body = config.batching.body_bytes_max
    payloads = [b"", b"x" * 100, b"y" * min(body - 20, 2**20), b"z" * 1000]
    client: LogClient
    async with log.client(**{one: getattr(config, one) for one in config.__dataclass_fields__}) as client:
        writer = await client.open_writer(name, create=True)
        for payload in payloads:
            await writer.append(payload)
        for number in range(5):
            await writer.submit(b"%d" % number)
        await writer.flush()
        await writer.rotate()
        await writer.append(b"rotated")
        writer.abort()
        async with client.open_writer(name, create=True) as successor:
            await successor.append(b"taken over")
        async with client.reader(name, until="latest", config=reading) as reader:
            found = [message.payload async for message in reader]
    assert found == [*payloads, *(b"%d" % number for number in range(5)), b"rotated", b"taken over"]
    return True


async def check_all(chosen: list[tuple[tuple[str, Any], ...]]) -> int:
    worked = 0
    async with scripted_log(4) as log:
        for number, settings in enumerate(chosen):
            try:
                async with asyncio.timeout(LIMIT_S):
                    worked += await use(log, f"log-{number}", settings)
            except Exception as error:
                raise AssertionError(f"with {settings}") from error
    return worked


async def test_each_extreme_is_refused_or_works() -> None:
    assert await check_all(SINGLE) > len(SINGLE) // 2


@pytest.mark.parametrize("part", range(8))
async def test_pairs_of_extremes_are_refused_or_work(part: int) -> None:
    """A tenth of all pairs, spread over all settings."""
    chosen = PAIRS[part::80]
    assert await check_all(chosen) > len(chosen) // 3


def test_settings_that_no_entry_fits_are_refused() -> None:
    """They were found one after the other as appends that waited for ever."""
    with pytest.raises(ConfigurationError, match=r"a ledger would refuse a full entry; raise the first"):
        LogConfig(ledger=LedgerClientConfig(entry_bytes_max=100_000))
    with pytest.raises(ConfigurationError, match="send_queue_bytes_max must be"):
        LedgerClientConfig(send_queue_bytes_max=1000)
    for name in ("unacknowledged_bytes_max", "read_ahead_bytes_max"):
        with pytest.raises(ConfigurationError, match=f"{name} .*must each be at least 1"):
            LogConfig(**{name: 0})
    with pytest.raises(ConfigurationError, match="frame_bytes_max must be"):
        LedgerClientConfig(frame_bytes_max=1000)
