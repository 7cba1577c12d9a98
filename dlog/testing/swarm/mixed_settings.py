"""Settings that differ between the processes of one run, where nothing requires that they are equal.

Quorum sizes, visibility, password and the hold limit stay as the plan says: the checks count on them.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from bookie_server.storage.config import StorageConfig
from dlog.config import LogConfig
from dlog.testing.bookies import KIB
from ledger.config import LedgerClientConfig, WireProtocol
from ledger.model import DigestType

_TIMEOUTS = (
    "connect_timeout_s",
    "add_timeout_s",
    "read_timeout_s",
    "quorum_timeout_s",
    "lost_member_s",
    "replace_backoff_max_s",
    "change_hold_s",
    "probe_timeout_s",
)
_FACTORS = (0.5, 1.0, 1.0, 2.0)
_DIGESTS = (DigestType.CRC32C, DigestType.CRC32, DigestType.HMAC)


def mixed_log_config(config: LogConfig, rng: Random) -> LogConfig:
    """Other timeouts, batches, ledgers, windows, digest and wire version for one client."""
    rotation, batching = config.rotation, config.batching
    return replace(
        config,
        rotation=replace(
            rotation,
            entries_max=max(2, int(rotation.entries_max * rng.choice(_FACTORS))),
            bytes_max=max(4 * KIB, int(rotation.bytes_max * rng.choice(_FACTORS))),
            age_s=rotation.age_s * rng.choice(_FACTORS),
        ),
        batching=replace(
            batching,
            batch_bytes=rng.choice((1, 512, 4 * KIB, 32 * KIB)),
            linger_s=rng.choice((0.0, 0.001, 0.05)),
        ),
        buffer_bytes_max=config.buffer_bytes_max * rng.choice((1, 1, 4)),
        candidate_wait_s=config.candidate_wait_s * rng.choice(_FACTORS),
        digest_type=config.digest_type if config.digest_type is DigestType.DUMMY else rng.choice(_DIGESTS),
        ledger=_mixed_ledger_config(config.ledger, rng),
    )


def _mixed_ledger_config(config: LedgerClientConfig, rng: Random) -> LedgerClientConfig:
    timeouts = {name: getattr(config, name) * rng.choice(_FACTORS) for name in _TIMEOUTS}
    return replace(
        config,
        **timeouts,
        wire=rng.choice((config.wire, WireProtocol.V2, WireProtocol.V3)),
        recovery_read_ahead=rng.choice((1, 4, 16)),
        read_window_bytes=rng.choice((8 * KIB, 16 * KIB, 256 * KIB)),
    )


def mixed_storage(config: StorageConfig, rng: Random) -> StorageConfig:
    """Other caches, files and intervals for one bookie."""
    size = rng.choice((16, 64, 256)) * KIB
    return replace(
        config,
        write_cache_bytes_max=size,
        entry_log_bytes_max=rng.choice((1, 2, 4)) * size,
        block_bytes_max=rng.choice((1, 4, 16)) * KIB,
        read_cache_bytes_max=rng.choice((4, 64)) * KIB,
        read_ahead_bytes=rng.choice((0, 16, 64)) * KIB,
        journal_segment_bytes=rng.choice((64, 256)) * KIB,
        ledger_states_max=rng.choice((2, 16, 1000)),
        checkpoint_interval_s=config.checkpoint_interval_s * rng.choice(_FACTORS),
        disk_check_interval_s=config.disk_check_interval_s * rng.choice(_FACTORS),
    )
