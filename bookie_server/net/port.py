"""The port a bookie listens on. Port 0 is chosen once and then kept in the ledger directory: the address is
part of the bookie's identity, so that a restart must find it again.
"""

from __future__ import annotations

from pathlib import Path

from bookie_server.disk.disk import Disk
from ledger.digits import whole_number
from ledger.errors import ConfigurationError

PORT_FILE = "port"


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
