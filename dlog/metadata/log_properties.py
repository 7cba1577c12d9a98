"""Texts that programs store with a log, under a key of their own. Each change is one compare-and-set."""

from __future__ import annotations

from collections.abc import Mapping

from dlog.core import metadata_keys
from dlog.errors import RecordFormatError
from dlog.format.properties import checked_properties, decode_log_properties, encode_log_properties
from dlog.metadata.log_ref import LogRef
from dlog.metadata.value import cannot_be_decoded, change_value, read_value
from ledger.arguments import require_type
from ledger.environment import Environment
from ledger.metadata.store import MetadataStore
from ledger.model import Versioned


class LogProperties:
    """The properties of any log."""

    def __init__(self, store: MetadataStore, environment: Environment) -> None:
        self._store = store
        self._environment = environment

    async def read(self, ref: LogRef) -> dict[str, str]:
        """The log's properties, by name.

        Raises:
            RecordFormatError: they are damaged.
        """
        return _decoded(_key(ref), await read_value(self._store, _key(ref)))

    async def update(self, ref: LogRef, changes: Mapping[str, str | None]) -> dict[str, str]:
        """Set these, remove those whose value is None, keep the others; returns all.

        Raises:
            ConfigurationError: they are no texts, too many or too long.
            RecordFormatError: those that are there are damaged.
            ContendedError: others changed them in every round.
            MetadataOutcomeUnknownError: they may have been changed.
        """

        for name in changes:  # also what is removed, which is not among the properties that are checked below
            require_type("the name of a property", name, str)

        async def decide(found: Versioned[bytes] | None) -> bytes | None:
            before = _decoded(_key(ref), found)
            after = {name: value for name, value in {**before, **changes}.items() if value is not None}
            return None if after == before else encode_log_properties(checked_properties(after))

        subject = f"the properties of log {ref}"
        return _decoded(
            _key(ref), await change_value(self._store, self._environment, _key(ref), subject, decide)
        )


def _key(ref: LogRef) -> str:
    return metadata_keys.properties_key(ref.root, ref.name, ref.log_uuid)


def _decoded(key: str, found: Versioned[bytes] | None) -> dict[str, str]:
    if found is None:
        return {}
    try:
        return dict(decode_log_properties(found.value))
    except RecordFormatError as error:
        raise cannot_be_decoded("the properties", key, error, ", or remove that key") from error
