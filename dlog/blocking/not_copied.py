"""What copy and pickle must not make a second one of."""

from __future__ import annotations

from typing import NoReturn

from ledger.errors import ConfigurationError


class NotCopied:
    """It has a connection, or a place in a log: a copy would share one part of it and lack another."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise ConfigurationError(
            f"{self!r} cannot be copied or passed to another process: pass the address of the cluster and the name of "
            "the log, and connect there"
        )
