"""Entries in flight: framed once, kept until confirmed, and resent with their original bytes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import Enum
from itertools import islice

from ledger.core.distribution import write_set
from ledger.model import EntryId, LedgerId, LedgerMetadata
from ledger.wire.add_v3 import add_start, deferred_add, recovery_add
from ledger.wire.constants import ADD_HEADER, ADD_REQUEST_START, MASTER_KEY_BYTES, RECOVERY_ADD_HEADER
from ledger.wire.digest import make_digester, master_key


class AddKind(Enum):
    """The flags of an add."""

    NORMAL = "normal"
    """None: synced before it is acknowledged, refused once the ledger is fenced."""
    DEFERRED = "deferred"
    """Acknowledged once it is stored, synced by a force. Version 3 only."""
    RECOVERY = "recovery"
    """Taken by a fenced ledger, too, and by a read-only bookie."""


class PendingAdds:
    """The unconfirmed entries of one writer, in order of their ids."""

    __slots__ = (
        "_entries",
        "_header",
        "_kind",
        "_ledger_id",
        "_length",
        "_overhead",
        "_quorum",
        "_txn_ids",
        "confirmed_length",
        "digester",
        "key",
        "lac",
    )

    def __init__(
        self,
        ledger_id: LedgerId,
        metadata: LedgerMetadata,
        lac: EntryId,
        kind: AddKind,
        txn_ids: Iterator[int] | None,
    ) -> None:
        """The first entry is `lac` + 1. Framed for version 2, or for version 3 where there are transaction ids."""
        self._ledger_id = ledger_id
        self._quorum = metadata.quorum
        self.digester = make_digester(metadata.digest_type, metadata.password)
        self.key = master_key(metadata.password)
        self._kind = kind
        self._overhead = 4 + MASTER_KEY_BYTES + self.digester.overhead_bytes
        """Bytes of a frame of version 2 after its length and before the payload."""
        self._header = RECOVERY_ADD_HEADER if kind is AddKind.RECOVERY else ADD_HEADER
        self._txn_ids = txn_ids
        self._length = 0
        # The two pieces of a frame (version 2 and normal adds: up to the payload, and the payload), and the
        # ledger's length including the entry; from _lac + 1 on.
        self._entries: deque[tuple[bytes, bytes, int]] = deque()
        self.lac = lac
        """Everything up to it is confirmed and dropped."""
        self.confirmed_length = 0
        """Payload bytes of the ledger up to its LAC."""

    @property
    def first(self) -> EntryId:
        """The lowest unconfirmed entry."""
        return EntryId(self.lac + 1)

    @property
    def payloads(self) -> list[bytes]:
        """Payloads of the unconfirmed entries; normal adds only."""
        assert self._kind is AddKind.NORMAL
        return [payload for _, payload, _ in self._entries]

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def frames_bytes(self) -> int:
        """Bytes of the frames of the unconfirmed entries, about."""
        entries = self._entries
        if not entries:
            return 0
        head, payload, length = entries[0]
        return entries[-1][2] - length + len(payload) + len(head) * len(entries)

    def continue_from(self, length: int) -> None:
        """The ledger's length before the next entry, if it is not the sum of what was added here."""
        self._length = length
        if not self._entries:
            self.confirmed_length = length

    @property
    def payload_bytes(self) -> int:
        """Payload bytes of the unconfirmed entries."""
        return self._length - self.confirmed_length

    def encode(self, payloads: list[bytes], lac: int) -> list[bytes]:
        """Frame the next entries, with this LAC in their headers; returns the pieces to send, two per entry."""
        if self._txn_ids is not None:
            return self._encode_v3(payloads, lac, self._txn_ids)
        head_of, start = self.digester.header_and_digest, ADD_REQUEST_START.pack
        key, ledger_id, header = self.key, self._ledger_id, self._header
        size, length = self._overhead, self._length
        pieces: list[bytes] = []
        for entry_id, payload in enumerate(payloads, self.lac + 1 + len(self._entries)):
            count = len(payload)
            length += count
            head = start(size + count, header, key) + head_of(ledger_id, entry_id, lac, length, (payload,))
            self._entries.append((head, payload, length))
            pieces.append(head)
            pieces.append(payload)
        self._length = length
        return pieces

    def _encode_v3(self, payloads: list[bytes], lac: int, txn_ids: Iterator[int]) -> list[bytes]:
        pieces: list[bytes] = []
        for entry_id, payload in enumerate(payloads, self.first + len(self._entries)):
            self._length += len(payload)
            entry_head = self.digester.header_and_digest(
                self._ledger_id, entry_id, lac, self._length, (payload,)
            )
            head, rest = self._pieces_v3(next(txn_ids), entry_id, entry_head, payload)
            self._entries.append((head, rest, self._length))
            pieces += (head, rest)
        return pieces

    def _pieces_v3(
        self, txn_id: int, entry_id: int, entry_head: bytes, payload: bytes
    ) -> tuple[bytes, bytes]:
        match self._kind:
            case AddKind.NORMAL:
                size = len(entry_head) + len(payload)
                return add_start(txn_id, self._ledger_id, entry_id, self.key, size) + entry_head, payload
            case AddKind.DEFERRED:
                return deferred_add(txn_id, self._ledger_id, entry_id, self.key, entry_head + payload), b""
            case AddKind.RECOVERY:
                return recovery_add(txn_id, self._ledger_id, entry_id, self.key, entry_head + payload), b""

    def by_position(self, first: int, count: int) -> list[list[bytes]]:
        """Pieces of these entries for each position of a striped ensemble: two per entry."""
        batches: list[list[bytes]] = [[] for _ in range(self._quorum.ensemble)]
        start = first - self.first
        for entry_id, (head, payload, _) in enumerate(islice(self._entries, start, start + count), first):
            for position in write_set(entry_id, self._quorum):
                batches[position] += (head, payload)
        return batches

    def for_position(self, position: int) -> list[bytes]:
        """Pieces of every unconfirmed entry that the member at `position` must hold: two per entry."""
        pieces: list[bytes] = []
        everything = self._quorum.ensemble == self._quorum.write
        for entry_id, (head, payload, _) in enumerate(self._entries, self.first):
            if everything or position in write_set(entry_id, self._quorum):
                pieces += (head, payload)
        return pieces

    def confirm(self, lac: EntryId) -> None:
        """Drop entries up to `lac`, which is above the last one."""
        forget = self._entries.popleft
        for _ in range(lac - self.lac - 1):
            forget()
        self.confirmed_length = forget()[2]
        self.lac = lac
