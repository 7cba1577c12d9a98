"""The address of the cluster for programs that give none: the environment variable of the command line."""

from __future__ import annotations

import os

from ledger.errors import ConfigurationError

VARIABLE = "DLOG_METADATA"


def metadata_address(uri: str | None) -> str:
    """`uri`, or what the environment says.

    Raises:
        ConfigurationError: neither names a metadata store.
    """
    found = os.environ.get(VARIABLE) if uri is None else uri
    if not found:
        raise ConfigurationError(
            f"no cluster to connect to: pass its address to connect, or set {VARIABLE}; "
            "`dlog standalone` starts a cluster and prints its address"
        )
    return found
