"""One value under a key of its own, changed by compare-and-set, with lost answers resolved by reading again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from dlog.errors import RecordFormatError
from ledger.environment import Environment
from ledger.errors import (
    AlreadyExistsError,
    LogStoreError,
    MetadataOutcomeUnknownError,
    MetadataUnavailableError,
    MetadataVersionError,
    RecordNotFoundError,
)
from ledger.metadata.rounds import Rounds
from ledger.metadata.store import MetadataStore
from ledger.model import Versioned

UNDECIDED = (AlreadyExistsError, RecordNotFoundError, MetadataVersionError, MetadataOutcomeUnknownError)
"""After these a read shows whether the change was made, or what was."""


@contextmanager
def still(in_doubt: LogStoreError | None) -> Iterator[None]:
    """Raise `in_doubt`, of an earlier change whose answer was lost, if the metadata store cannot be reached.

    Then the outcome stays unknown: that change may have been made, or may still be.
    """
    try:
        yield
    except MetadataUnavailableError:
        if in_doubt is None:
            raise
        raise in_doubt from None


def cannot_be_decoded(what: str, key: str, error: RecordFormatError, else_: str = "") -> RecordFormatError:
    """The error of the value under `key`, with what to do about it. `else_`: what to do if there is no backup."""
    way_out = "" if error.newer_version is not None else f"; restore {key} from a backup{else_}"
    return RecordFormatError(
        f"{what} under {key} cannot be decoded: {error}{way_out}", key=key, newer_version=error.newer_version
    )


async def read_value(store: MetadataStore, key: str) -> Versioned[bytes] | None:
    """The value, read linearizably; None if there is none.

    Raises:
        MetadataUnavailableError: the metadata store cannot be reached.
    """
    try:
        return await store.read_record(key)
    except RecordNotFoundError:
        return None


async def change_value(
    store: MetadataStore,
    environment: Environment,
    key: str,
    what: str,
    decide: Callable[[Versioned[bytes] | None], Awaitable[bytes | None]],
) -> Versioned[bytes] | None:
    """Set the value to what `decide` makes of the newest one, or leave that if it returns None; returns what is there.

    `decide` is called in each round, also with what an earlier round has written although its answer was lost.
    `what` is the value, as the subject of a sentence.

    Raises:
        ContendedError: others changed it in every round; nothing was changed.
        MetadataUnavailableError: nothing was changed.
        MetadataOutcomeUnknownError: it may have been changed.
    """
    rounds = Rounds(environment, what)
    in_doubt: LogStoreError | None = None
    while True:
        with still(in_doubt):
            found = await read_value(store, key)
            value = await decide(found)
            if value is None:
                return found
            try:
                if found is None:
                    return Versioned(value, await store.create_record(key, value))
                return Versioned(value, await store.write_record(key, value, found.version))
            except UNDECIDED as error:
                in_doubt = error if isinstance(error, MetadataOutcomeUnknownError) else in_doubt
                await rounds.again(in_doubt or error)


async def forget_value(store: MetadataStore, environment: Environment, key: str, what: str) -> None:
    """Remove a value whose key is never used again, whatever it is; nothing if there is none.

    Raises:
        ContendedError: others changed it in every round.
        MetadataUnavailableError, MetadataOutcomeUnknownError: it may be left.
    """
    rounds = Rounds(environment, what)
    while (found := await read_value(store, key)) is not None:
        try:
            await store.remove_record(key, found.version)
        except RecordNotFoundError:
            return
        except (MetadataVersionError, MetadataOutcomeUnknownError) as error:
            await rounds.again(error)
