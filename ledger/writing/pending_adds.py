"""Entries in flight: framed once, kept until confirmed, and resent with their original bytes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice

from ledger.core.distribution import write_set
from ledger.model import NO_ENTRY, EntryId, LedgerId, QuorumSizes
from ledger.wire.add_v3 import add_start
from ledger.wire.constants import ADD_HEADER, ADD_REQUEST_START, MASTER_KEY_BYTES
from ledger.wire.digest import Digester


class PendingAdds:
    """The unconfirmed entries of one writer, in order of their ids."""

    def __init__(
        self,
        ledger_id: LedgerId,
        quorum: QuorumSizes,
        digester: Digester,
        key: bytes,
        txn_ids: Iterator[int] | None = None,
    ) -> None:
        """Framed for version 2, or for version 3 where there are transaction ids."""
        self._ledger_id = ledger_id
        self._quorum = quorum
        self._digester = digester
        self._key = key
        self._txn_ids = txn_ids
        self._length = 0
        # (frame without its payload, payload, ledger length including it), from _lac + 1 on.
        self._entries: deque[tuple[bytes, bytes, int]] = deque()
        self._lac = NO_ENTRY
        self.confirmed_length = 0
        """Payload bytes of the ledger up to its LAC."""

    @property
    def first(self) -> EntryId:
        """The lowest unconfirmed entry."""
        return EntryId(self._lac + 1)

    @property
    def payloads(self) -> list[bytes]:
        return [payload for _, payload, _ in self._entries]

    def encode(self, payloads: list[bytes], lac: int) -> list[bytes]:
        """Frame the next entries, with this LAC in their headers; returns the pieces to send, in order."""
        if self._txn_ids is not None:
            return self._encode_v3(payloads, lac, self._txn_ids)
        head_of, start = self._digester.header_and_digest, ADD_REQUEST_START.pack
        key, ledger_id = self._key, self._ledger_id
        size = 4 + MASTER_KEY_BYTES + self._digester.overhead_bytes
        length = self._length
        pieces: list[bytes] = []
        for entry_id, payload in enumerate(payloads, self.first + len(self._entries)):
            count = len(payload)
            length += count
            head = start(size + count, ADD_HEADER, key) + head_of(
                ledger_id, entry_id, lac, length, (payload,)
            )
            self._entries.append((head, payload, length))
            pieces.append(head)
            pieces.append(payload)
        self._length = length
        return pieces

    def _encode_v3(self, payloads: list[bytes], lac: int, txn_ids: Iterator[int]) -> list[bytes]:
        pieces: list[bytes] = []
        for entry_id, payload in enumerate(payloads, self.first + len(self._entries)):
            self._length += len(payload)
            entry_head = self._digester.header_and_digest(
                self._ledger_id, entry_id, lac, self._length, (payload,)
            )
            size = len(entry_head) + len(payload)
            head = add_start(next(txn_ids), self._ledger_id, entry_id, self._key, size) + entry_head
            self._entries.append((head, payload, self._length))
            pieces += (head, payload)
        return pieces

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

    def confirm(self, lac: int) -> bool:
        """Drop entries up to `lac`; True if there were any."""
        count = lac - self._lac
        if count <= 0:
            return False
        forget = self._entries.popleft
        for _ in range(count - 1):
            forget()
        self.confirmed_length = forget()[2]
        self._lac = EntryId(lac)
        return True
