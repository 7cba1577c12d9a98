"""The ids that one entry gives to its messages, derived when asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from dlog.model import MessageId


class MessageIds(Sequence[MessageId]):
    """The ids of one entry's messages, as a sequence. Costs the same for one message and for ten thousand."""

    __slots__ = ("entry_id", "ledger_id", "message_count")

    def __init__(self, ledger_id: int, entry_id: int, message_count: int) -> None:
        self.ledger_id = ledger_id
        self.entry_id = entry_id
        self.message_count = message_count

    def __len__(self) -> int:
        return self.message_count

    @overload
    def __getitem__(self, index: int) -> MessageId: ...
    @overload
    def __getitem__(self, index: slice) -> list[MessageId]: ...
    def __getitem__(self, index: int | slice) -> MessageId | list[MessageId]:
        found = range(self.message_count)[index]
        if isinstance(found, range):
            return [MessageId(self.ledger_id, self.entry_id, i) for i in found]
        return MessageId(self.ledger_id, self.entry_id, found)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Sequence):
            return list(self) == list(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash((self.ledger_id, self.entry_id, self.message_count))

    def __repr__(self) -> str:
        return f"MessageIds({self.ledger_id}:{self.entry_id}:0..{self.message_count - 1})"
