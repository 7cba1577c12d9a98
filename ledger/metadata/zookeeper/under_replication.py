"""The marks that BookKeeper's autorecovery keeps of ledgers that lack copies. Read only: we leave none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from kazoo.exceptions import NoNodeError

from ledger.errors import InvalidNameError, MetadataFormatError
from ledger.metadata.format.data_formats_pb2 import UnderreplicatedLedgerFormat
from ledger.metadata.proto_text import parse_text
from ledger.metadata.zookeeper.cluster import children_quietly
from ledger.metadata.zookeeper.paths import Paths, under_replicated_id
from ledger.metadata.zookeeper.session.session import ZooKeeperSession
from ledger.model import BookieId, LedgerId, check_bookie_id

_DIRECTORIES = 4


@dataclass(frozen=True, slots=True)
class UnderReplicated:
    """A marked ledger: the bookies whose copies are missing, and when it was marked first (ms since 1970)."""

    ledger_id: LedgerId
    missing: tuple[BookieId, ...]
    marked_ms: int | None


def decode_mark(ledger_id: LedgerId, data: bytes) -> UnderReplicated:
    """MetadataFormatError for a mark that is damaged."""
    message = UnderreplicatedLedgerFormat()
    try:
        parse_text(data.decode(), message, f"the under-replication mark of ledger {ledger_id}")
        missing = tuple(check_bookie_id(replica) for replica in message.replica)
    except (UnicodeDecodeError, InvalidNameError) as error:
        raise MetadataFormatError(
            f"the under-replication mark of ledger {ledger_id} is damaged: {error}", key=ledger_id
        ) from error
    return UnderReplicated(ledger_id, missing, message.ctime if message.HasField("ctime") else None)


class UnderReplicationMarks:
    def __init__(self, session: ZooKeeperSession, paths: Paths) -> None:
        self._session = session
        self._root = f"{paths.under_replication}/ledgers"

    def all(self) -> AsyncIterator[UnderReplicated]:
        """Ascending by ledger id. One that is repaired while it is looked at is left out."""
        return self._below(self._root, _DIRECTORIES)

    async def _below(self, path: str, directories: int) -> AsyncIterator[UnderReplicated]:
        names = await children_quietly(self._session, path)
        if directories:
            for name in sorted(names):
                async for mark in self._below(f"{path}/{name}", directories - 1):
                    yield mark
            return
        for ledger_id in sorted(found for found in map(under_replicated_id, names) if found is not None):
            try:
                data, _ = await self._session.get(f"{path}/urL{ledger_id:010d}")
            except NoNodeError:
                continue
            yield decode_mark(ledger_id, bytes(data))
