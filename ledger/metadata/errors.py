"""Leaves of the error tree that only metadata drivers raise; the rest is in ledger/errors.py."""

from ledger.errors import CorruptionError, UnavailableError


class MetadataStoreDamagedError(CorruptionError):
    """The store itself, not one value in it, is not what it must be (facts: path)."""


class ClusterInUseError(UnavailableError):
    """Bookies of the cluster are registered, so it is not removed (facts: bookies)."""


class LockLostError(UnavailableError):
    """The session that held the lock has ended, so another worker may hold it (facts: ledger_id)."""
