"""Leaves of the error tree that only repair raises; the rest is in ledger/errors.py."""

from ledger.errors import UnavailableError


class FragmentChangedError(UnavailableError):
    """The fragment changed while it was copied, so nothing was replaced; look again."""

    ledger_id: int
    first_entry: int


class CopyFailedError(UnavailableError):
    """A bookie does not take copies, and nothing was replaced."""

    ledger_id: int
    bookie_id: str


class BookieRunningError(UnavailableError):
    """The bookie whose ledgers are to be moved is running."""

    bookie_id: str


class StillNeededError(UnavailableError):
    """Ledgers still depend on the bookie; the command may be repeated."""

    bookie_id: str
    ledgers: int


class TooFewRacksError(UnavailableError):
    """The check has found ledgers whose copies do not span the racks and zones that placement asks for."""

    ledgers: int


class CopiesMissingError(UnavailableError):
    """The check has found ledgers that lack copies, or of which not all is known."""

    ledgers: int
    unknown: int
