"""How many file descriptors this process may have, and how many of them its connections may take.

Invariant: whatever peers do, opening a file finds a descriptor. So connections are capped below the limit, by
all that files, the index and the metadata store may hold at the same time, and by one burst of connections
that the kernel hands over before the first of them can be refused.
"""

from __future__ import annotations

import resource
from dataclasses import replace

from bookie_server.config import Limits
from bookie_server.disk.freed_space import WAITING_MAX
from bookie_server.disk.rocksdb_store import OPEN_FILES_MAX
from bookie_server.storage.config import StorageConfig
from bookie_server.storage.entry_logs.entry_log import OPEN_LOGS_MAX
from ledger.errors import ConfigurationError

BACKLOG = 128
"""Connections that wait in the kernel to be accepted; more than that arrive at the next attempt."""
CONNECTIONS_MIN = 16
"""With less a bookie is of no use: three clients with a connection each, and a reserve."""
_OTHER_FILES = 64
"""Journal segments, locks, the log that is written, directories being synced, RocksDB's own files, the
metadata store, the event loop, standard streams: about 30, measured in a loaded bookie. At most 17 of pages over
HTTP (monitoring/server.py)."""


def raise_descriptor_limit() -> int:
    """Raise this process's soft limit of open files to its hard limit; the limit that holds on return."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):  # macOS takes no unlimited one
            return soft
    return hard


def reserved_descriptors(storage: StorageConfig) -> int:
    """What has to be left for everything but admitted connections."""
    readers = (storage.read_worker_count + 1) * (OPEN_LOGS_MAX + 1)
    return readers + OPEN_FILES_MAX + WAITING_MAX + _OTHER_FILES + BACKLOG


def limits_within(limits: Limits, storage: StorageConfig, descriptors_max: int) -> Limits:
    """The limits, with fewer connections if the process may not have a descriptor for each.

    The share of one address shrinks alike. ConfigurationError if there would be fewer than CONNECTIONS_MIN.
    """
    if descriptors_max == resource.RLIM_INFINITY:
        return limits
    reserved = reserved_descriptors(storage)
    connections_max = descriptors_max - reserved
    if connections_max >= limits.connections_max:
        return limits
    if connections_max < CONNECTIONS_MIN:
        raise ConfigurationError(
            f"the limit of open files is {descriptors_max}, but this bookie needs at least "
            f"{reserved + CONNECTIONS_MIN}: {reserved} for its files and {CONNECTIONS_MIN} for connections; raise "
            f"the limit (`ulimit -n 4096`, or LimitNOFILE=4096 in a systemd unit)"
        )
    share = limits.connections_per_address_max / limits.connections_max
    return replace(
        limits,
        connections_max=connections_max,
        connections_per_address_max=max(1, int(connections_max * min(1.0, share))),
    )
