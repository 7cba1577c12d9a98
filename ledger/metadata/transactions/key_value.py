"""The small transactional key-value store under the memory and SQLite drivers: types only.

A driver supplies a Backend. What the operations of MetadataStore mean is written once, as jobs: plain
functions of a Transaction (ledgers.py, records.py, bookies.py, cluster.py), run by
`Backend.read` and `Backend.write`. Law for jobs: a job is quick, may run more than once before its outcome
counts, touches nothing but its transaction, and raises (only our errors) before its first change, not after.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from ledger.metadata.store import Unwatch, Watch

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Node:
    """A stored value. One that names a session lives as long as that session's process."""

    value: bytes
    version: int
    session: str | None = None


class Transaction(Protocol):
    """One atomic look and change. Keys sort by code point; keys never hold U+0000."""

    def get(self, key: str) -> Node | None: ...

    def keys(self, prefix: str, *, start: str = "", limit: int) -> list[str]:
        """Up to `limit` keys that begin with `prefix` and are not below `start`, ascending."""

    def nodes(self, prefix: str) -> list[tuple[str, Node]]:
        """Every key and node under `prefix`, ascending. For the small ranges only."""

    def create(self, key: str, value: bytes, session: str | None = None) -> bool:
        """Store at version 0; False if the key is taken."""

    def update(self, key: str, value: bytes, version: int) -> bool:
        """Compare-and-set; False if there is no node at that version."""

    def remove(self, key: str, version: int | None = None) -> bool:
        """Remove at that version, or at any; False if there is none."""

    def remove_range(self, prefix: str) -> None: ...

    def is_alive(self, session: str) -> bool:
        """Whether the process that holds the session still runs."""


Job = Callable[[Transaction], T]


class Backend(Protocol):
    """One open handle of a store. After `close` every call raises MetadataUnavailableError."""

    @property
    def uri(self) -> str: ...

    async def read(self, job: Job[T]) -> T: ...

    async def write(self, job: Job[T]) -> T:
        """Run and commit. An error raised by the job, or MetadataUnavailableError: nothing was changed."""

    async def create(self, job: Job[T]) -> T:
        """As `write`, but makes the store itself when it does not exist yet, atomically with the job."""

    async def session(self) -> str:
        """This handle's session, begun at first use, ended by `close` or the end of the process."""

    def watch_key(self, key: str, watch: Watch, *, urgent: bool) -> Unwatch: ...

    def watch_range(self, prefix: str, watch: Watch) -> Unwatch:
        """Also fires when a session that a node under `prefix` names has ended."""

    async def close(self) -> None: ...
