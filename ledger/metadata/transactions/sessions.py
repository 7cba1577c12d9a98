"""The end of a session: what names it goes (key_value.py has the law for jobs)."""

from __future__ import annotations

from ledger.metadata.transactions import bookies, repair
from ledger.metadata.transactions.key_value import Transaction

_EPHEMERAL = (bookies.PREFIX, repair.LOCKS, repair.VOTES)


def end_session(tx: Transaction, session: str) -> None:
    for prefix in _EPHEMERAL:
        for key, node in tx.nodes(prefix):
            if node.session == session:
                tx.remove(key)
