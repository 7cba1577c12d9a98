"""What a bookie knows about one ledger in addition to its entries."""

from __future__ import annotations


class StoredLedger:
    """One object per ledger while anything refers to it. Only the storage changes it.

    `fenced` is set as soon as a fence is accepted: from then on no add of a normal writer may be accepted,
    although the fence may be answered only when its record is durable.
    """

    __slots__ = (
        "__weakref__",
        "deleted",
        "explicit_lac",
        "explicit_lac_value",
        "fence_durable",
        "fenced",
        "lac",
        "last_entry",
        "ledger_id",
        "limbo",
        "master_key",
    )

    def __init__(self, ledger_id: int, master_key: bytes) -> None:
        self.ledger_id = ledger_id
        self.master_key = master_key
        self.fenced = False
        self.fence_durable = False
        self.deleted = False
        self.limbo = False
        """Part of the ledger may have been lost: refuse normal adds, never prove absence."""
        self.lac = -1
        """Highest LAC seen in headers of adds or in explicit LACs."""
        self.explicit_lac: bytes | None = None
        """The packet of the highest explicit LAC, as it came."""
        self.explicit_lac_value = -1
        self.last_entry = -1
        """Highest entry id accepted, -1 for none."""

    def __repr__(self) -> str:
        return (
            f"StoredLedger({self.ledger_id}, last_entry={self.last_entry}, lac={self.lac}, "
            f"fenced={self.fenced}, deleted={self.deleted})"
        )
