"""What a store says when it refuses, and which ids and bytes it takes: the same sentences in every driver."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from ledger.errors import (
    InvalidNameError,
    LayoutMismatchError,
    LedgerNotFoundError,
    MetadataFormatError,
    MetadataUnavailableError,
    MetadataVersionError,
    RecordNotFoundError,
)
from ledger.metadata.errors import ClusterInUseError
from ledger.metadata.format.ledger import decode_ledger_metadata
from ledger.model import LEDGER_ID_MAX, LedgerMetadata

AHEAD_MAX = 2**40
"""A bookie with an id that is more above those given out has it from a client that drew none: ids must not run out by
that, nor may it hide the highest id that was drawn."""
KILLED = "one that was killed stays registered until its session with the metadata store has expired"
OLDER_THAN_BOOKIE = (
    "ledger %d was stored by a bookie that registers, and its id was never given out, as if the metadata were restored "
    "from an older backup: ledger ids continue above it"
)
"""Logged as a warning: the id."""


def checked_ledger_id(ledger_id: int) -> int:
    if not 0 <= ledger_id <= LEDGER_ID_MAX:
        raise InvalidNameError(f"ledger id {ledger_id} is outside 0 to {LEDGER_ID_MAX}")
    return ledger_id


def stored_ledger(ledger_id: int, data: bytes) -> LedgerMetadata:
    """What `data`, found under that ledger, says; a MetadataFormatError names the ledger."""
    try:
        return decode_ledger_metadata(data)
    except MetadataFormatError as error:
        raise MetadataFormatError(
            f"the metadata of ledger {ledger_id} cannot be used: {error}; restore it from a backup, "
            "or use a release that knows its format",
            key=ledger_id,
            newer_version=error.newer_version,
        ) from error


def intact_ledger(data: bytes) -> LedgerMetadata | None:
    """What `data` says; None if it is damaged."""
    try:
        return decode_ledger_metadata(data)
    except MetadataFormatError:
        return None


def is_own_create(found: bytes, c_token: int | None) -> bool:
    """Whether the ledger found in place of ours is ours: the create was sent before and its answer lost."""
    # Token 0 is what every rewrite leaves behind, so it names nobody.
    return bool(c_token) and decode_ledger_metadata(found).c_token == c_token


def ledger_not_found(ledger_id: int) -> LedgerNotFoundError:
    return LedgerNotFoundError(f"ledger {ledger_id} does not exist", ledger_id=ledger_id)


def ledger_moved_on(ledger_id: int, found: int, expected: int) -> MetadataVersionError:
    return MetadataVersionError(
        f"metadata of ledger {ledger_id} is at version {found}, not at {expected}: read it again",
        key=ledger_id,
        expected=expected,
    )


def record_not_found(key: str) -> RecordNotFoundError:
    return RecordNotFoundError(f"{key} does not exist", key=key)


def record_moved_on(key: str, found: int, expected: int) -> MetadataVersionError:
    return MetadataVersionError(
        f"{key} is at version {found}, not at {expected}: read it again", key=key, expected=expected
    )


def cluster_in_use(registered: Sequence[str]) -> ClusterInUseError:
    """Names up to three of the bookies."""
    found = "1 bookie is" if len(registered) == 1 else f"{len(registered)} bookies are"
    return ClusterInUseError(
        f"{found} registered ({', '.join(registered[:3])}): stop {'it' if len(registered) == 1 else 'them'} first; "
        f"{KILLED}",
        bookies=list(registered),
    )


def has_no_instance_id(uri: str) -> str:
    """Of a cluster that has LAYOUT and not INSTANCEID. No command makes INSTANCEID: cookies name the old one."""
    return (
        f"the cluster in {uri} has no INSTANCEID: restore that from a backup, or remove what is left of the cluster, "
        f"with all of its ledgers, with 'bookie nuke-cluster --force --metadata {uri}'"
    )


def not_this_cluster(found: str | None, wanted: str | None) -> LayoutMismatchError:
    """Of a removal that names another cluster than is there."""
    return LayoutMismatchError(
        f"this is cluster {found}, not {wanted}: nothing was removed, check the address"
        if wanted is not None
        else f"this is cluster {found}: nothing was removed, name it"
    )


def no_cluster(uri: str) -> MetadataUnavailableError:
    if uri.startswith("memory:"):
        return MetadataUnavailableError(
            f"{uri} holds no cluster, and exists only in this process: use an address that others can reach, as "
            "'dlog standalone' prints one"
        )
    return MetadataUnavailableError(
        f"{uri} holds no cluster yet: make one with `bookie init-cluster --metadata {shlex.quote(uri)}`, "
        f"or start one with `dlog standalone --data DIR --metadata {shlex.quote(uri)}`"
    )
