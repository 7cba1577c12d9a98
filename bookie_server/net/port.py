"""The port a bookie listens on. Port 0 is chosen once and then kept in the ledger directory: the address is
part of the bookie's identity, so that a restart must find it again.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from bookie_server.disk.disk import Disk
from ledger.digits import whole_number
from ledger.errors import ConfigurationError

VARIABLE = "BOOKIE_PORT_RANGE"
"""Name of the environment variable."""
PORT_FILE = "port"
FREE_PORTS = range(10_000, 32_768)
"""Below those that systems give to outgoing connections (Linux from 32768, others from 49152): while a bookie is
down, any connection of its machine could take such a port, and the bookie could not start again."""
TRIES = 5


def ports_to_try(rng: Random, given: range | None = None) -> list[int]:
    """What a first start without a given port tries one after the other.

    All of a given range; else some of those above, and last 0, the system's choice.
    """
    return [*rng.sample(FREE_PORTS, TRIES), 0] if given is None else rng.sample(given, len(given))


def parse_range(text: str) -> range:
    """The ports of FIRST-LAST. ConfigurationError."""
    first, _, last = text.partition("-")
    ports = range(whole_number(first, 65535) or 0, (whole_number(last, 65535) or 0) + 1)
    if not ports or not ports.start:
        raise ConfigurationError(f"port_range must be FIRST-LAST, two ports in 1..65535, got {text[:20]!r}")
    return ports


def kept_port(disk: Disk, directory: Path) -> int | None:
    """The port an earlier start has chosen, None if there was none. Blocks."""
    path = directory / PORT_FILE
    if not disk.exists(path):
        return None
    text = disk.read_file(path).decode("ascii", "replace").strip()
    port = whole_number(text, 65535)
    if not port:
        raise ConfigurationError(
            f"{path} must contain a port in 1..65535, got {text[:20]!r}: correct it, or start with --port"
        )
    return port


def keep_port(disk: Disk, directory: Path, port: int) -> None:
    """Remember the chosen port. Blocks."""
    disk.replace_file(directory / PORT_FILE, f"{port}\n".encode())
