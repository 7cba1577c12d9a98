"""What a client lends to its handles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ledger.config import LedgerClientConfig
from ledger.environment import Environment
from ledger.metadata.store import MetadataStore
from ledger.model import BookieSet
from ledger.transport.pool import ConnectionPool

if TYPE_CHECKING:
    from ledger.write_handle import WriteHandle


@dataclass(frozen=True, slots=True)
class Services:
    store: MetadataStore
    pool: ConnectionPool
    config: LedgerClientConfig
    environment: Environment
    bookies: Callable[[], BookieSet]
    """The latest snapshot of registered bookies; never blocks, may be stale."""
    watch: Callable[[WriteHandle], None]
    """Have the handle's `tick` called until it returns False."""
    forget: Callable[[WriteHandle], None]
    """The handle is closed or failed for good."""
