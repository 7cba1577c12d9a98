"""Messages → entries: when a batch is full, and when a partial one leaves. Pure; the time is a parameter.

Invariant (docs/log-semantics.md#rule-11):

- A full batch (by bytes or by count) leaves immediately.
- A partial batch leaves as soon as nothing is in flight, so a lone append on an idle writer is not delayed;
  otherwise after `linger_s`, counted from its first message.
- Messages leave in the order in which they came; no batch exceeds `entry_bytes_max` (encoded, all included),
  and a message that cannot fit into any is refused before anything changes.

How the shell uses it: `add` returns the batches that must be submitted now, in order. After the `add`s of
one loop iteration, and whenever entries were acknowledged, it calls `due(now, in_flight=...)`; otherwise it
sets one timer for `deadline()`. `append_many` is one entry of its own: `take()` what is open, submit that,
then submit `Batch.of(...)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from dlog.errors import AppendRejectedError, MessageTooLargeError
from dlog.format.entry import ENTRY_OVERHEAD_BYTES
from dlog.format.message import (
    NO_HEADERS,
    Buffer,
    Columns,
    Flat,
    as_bin_column,
    columns_bytes,
    flat_headers,
    message_bytes,
)
from ledger.arguments import require_fields, require_type
from ledger.errors import ConfigurationError
from ledger.field_docs import with_field_docs
from ledger.model import ENTRY_BYTES_MAX

T = TypeVar("T")

Headers = Iterable[tuple[bytes, bytes]]

ENTRY_BYTES_MIN = ENTRY_OVERHEAD_BYTES + 1024
"""Lowest limit of an entry: with a kilobyte of messages."""


@with_field_docs
@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """When a batch is full, and how long a partial one may wait. Sizes are in bytes.

    Raises:
        ConfigurationError: a value has the wrong type or is out of its range.

    Source: docs/log-semantics.md#rule-11.
    """

    entry_bytes_max: int = 1024 * 1024
    """Largest encoded entry: ledger header, digest, envelope and messages before compression."""

    batch_bytes: int = 64 * 1024
    """Messages of this many bytes fill a batch: large enough to amortise the cost per entry."""

    batch_count_max: int = 10_000
    """Maximum number of messages in a batch; bounds the work of one acknowledgement."""

    linger_s: float = 0.001
    """Longest wait of a partial batch while other entries are in flight: about one append's round trip."""

    def __post_init__(self) -> None:
        require_fields(self)
        if not ENTRY_BYTES_MIN <= self.entry_bytes_max <= ENTRY_BYTES_MAX:
            raise ConfigurationError(
                f"entry_bytes_max must be {ENTRY_BYTES_MIN} to {ENTRY_BYTES_MAX}, got {self.entry_bytes_max}"
            )
        if self.batch_bytes < 1 or self.batch_count_max < 1 or not 0 <= self.linger_s < 60:
            raise ConfigurationError(
                f"need batch_bytes >= 1, batch_count_max >= 1 and 0 <= linger_s < 60, "
                f"got {self.batch_bytes}, {self.batch_count_max} and {self.linger_s}"
            )

    @property
    def body_bytes_max(self) -> int:
        """Capacity of one entry for encoded messages."""
        return self.entry_bytes_max - ENTRY_OVERHEAD_BYTES

    def check(self, body_bytes: int, what: str) -> None:
        """Check that messages of this encoded size fit into one entry.

        Raises:
            MessageTooLargeError: they do not.
        """
        if body_bytes > self.body_bytes_max:
            raise MessageTooLargeError(
                f"the {what} needs an entry of {body_bytes + ENTRY_OVERHEAD_BYTES} bytes, entry_bytes_max "
                f"is {self.entry_bytes_max}: append less in one call, or raise it (up to {ENTRY_BYTES_MAX})",
                entry_bytes=body_bytes + ENTRY_OVERHEAD_BYTES,
                entry_bytes_max=self.entry_bytes_max,
            )


@dataclass(slots=True)
class Batch(Generic[T]):
    """Messages that become one entry. `tokens` are the caller's own, one per message or one for all."""

    keys: list[bytes | None] = field(default_factory=list)
    payloads: list[bytes | None] = field(default_factory=list)
    headers: list[Flat] = field(default_factory=list)
    tokens: list[T] = field(default_factory=list)
    body_bytes: int = 0

    @property
    def count(self) -> int:
        """Number of messages."""
        return len(self.payloads)

    @property
    def columns(self) -> Columns:
        """The messages, a list per field."""
        return Columns(self.keys, self.payloads, self.headers)

    @classmethod
    def of(
        cls,
        limits: BatchLimits,
        payloads: Iterable[Buffer | None],
        *,
        keys: Sequence[Buffer | None] | None = None,
        headers: Sequence[Headers] | None = None,
    ) -> Batch[T]:
        """A whole entry (`append_many`): checked, never split. It has no token yet.

        Raises:
            AppendRejectedError: it is empty.
            ConfigurationError: the columns differ in length, or a value has a wrong type.
            MessageTooLargeError: it exceeds the limit.
        """
        payload_column = as_bin_column(payloads, "a payload")
        count = len(payload_column)
        if not count:
            raise AppendRejectedError("append_many needs at least one message, got none")
        key_column: list[bytes | None] = [None] * count if keys is None else as_bin_column(keys, "a key")
        require_type("headers", headers, Iterable, type(None))
        header_column = [NO_HEADERS] * count if headers is None else list(map(flat_headers, headers))
        for what, column in (("keys", key_column), ("headers", header_column)):
            if len(column) != count:
                raise ConfigurationError(
                    f"append_many needs as many {what} as payloads, got {len(column)} for {count} payloads"
                )
        batch = cls(key_column, payload_column, header_column)
        batch.body_bytes = columns_bytes(batch.columns)
        limits.check(batch.body_bytes, f"batch of {count} messages")
        return batch

    def without_first(self, count: int) -> Batch[T]:
        """The messages after the first `count`, as a batch without token."""
        batch = Batch[T](self.keys[count:], self.payloads[count:], self.headers[count:])
        batch.body_bytes = columns_bytes(batch.columns)
        return batch


class Batcher(Generic[T]):
    """Collects single messages. Batches share nothing, so one that was taken belongs to the caller."""

    __slots__ = (
        "_leaves_at",
        "_limits",
        "_open",
        "_room",
    )

    def __init__(self, limits: BatchLimits) -> None:
        self._limits = limits
        self._room = limits.body_bytes_max
        self._open: Batch[T] | None = None
        """The partial batch, which has a message."""
        self._leaves_at = 0.0

    @property
    def open_count(self) -> int:
        """Number of messages in the partial batch; the next one gets this batch index."""
        return 0 if self._open is None else len(self._open.payloads)

    @property
    def open_bytes(self) -> int:
        """Encoded bytes of the messages in the partial batch."""
        return 0 if self._open is None else self._open.body_bytes

    def deadline(self) -> float | None:
        """When the partial batch must leave even if others are in flight; None if there is none."""
        return None if self._open is None else self._leaves_at

    def add(
        self, payload: bytes | None, key: bytes | None, headers: Flat, token: T, now: float
    ) -> Sequence[Batch[T]]:
        """Take one message; return the batches (none, one or two) that leave now because they are full.

        The values are checked already (`as_bin`, `flat_headers`).

        Raises:
            MessageTooLargeError: it fits into no entry; nothing was changed.
        """
        size = message_bytes(key, payload, headers)
        limits, room = self._limits, self._room
        if size > room:
            limits.check(size, "message")
        full: tuple[Batch[T], ...] = ()
        batch = self._open
        if batch is not None and batch.body_bytes + size > room:
            full, batch = (batch,), None
        if batch is None:
            batch = self._open = Batch([key], [payload], [headers], [token], size)
            self._leaves_at = now + limits.linger_s
        else:
            batch.keys.append(key)
            batch.payloads.append(payload)
            batch.headers.append(headers)
            batch.tokens.append(token)
            batch.body_bytes += size
        if batch.body_bytes >= limits.batch_bytes or len(batch.payloads) >= limits.batch_count_max:
            self._open = None
            return (*full, batch)
        return full

    def due(self, now: float, *, in_flight: bool) -> Batch[T] | None:
        """The partial batch if it leaves now: nothing is in flight, or it has lingered long enough."""
        batch = self._open
        if in_flight and now < self._leaves_at:
            return None
        self._open = None
        return batch

    def take(self) -> Batch[T] | None:
        """The partial batch, at any time: before an entry of its own, at flush, rotation or close."""
        batch, self._open = self._open, None
        return batch
