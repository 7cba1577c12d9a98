"""Where everything stands in ZooKeeper: BookKeeper's own paths below the root, our records beside it. Pure.

/ledgers/LAYOUT, INSTANCEID, available, available/readonly, cookies, idgen, idgen-long, underreplication
/ledgers-records/<key>     the records of logs: a root of their own, named after the ledgers' root,
                           so that BookKeeper's tools never meet them and two clusters never share them
/ledgers-ids               left by a cluster that was removed: from where ids go on here

Protocol: docs/bookkeeper.md#zookeeper-paths.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ledger.metadata.format.layout import LayoutType
from ledger.metadata.ledger_paths import ledger_path
from ledger.model import LEDGER_ID_MAX, LedgerId

ID_PREFIX = "ID-"
HIGH_BITS_PREFIX = "HOB-"

_HIGH_BITS = re.compile(r"HOB-([0-9]{10})")
_UNDER_REPLICATED = re.compile(r"urL([0-9]{10,19})")


@dataclass(frozen=True, slots=True)
class Paths:
    """The paths of the cluster below `root`."""

    root: str

    @property
    def layout(self) -> str:
        return f"{self.root}/LAYOUT"

    @property
    def instance_id(self) -> str:
        return f"{self.root}/INSTANCEID"

    @property
    def available(self) -> str:
        return f"{self.root}/available"

    @property
    def read_only(self) -> str:
        return f"{self.root}/available/readonly"

    @property
    def cookies(self) -> str:
        return f"{self.root}/cookies"

    @property
    def long_ids(self) -> str:
        return f"{self.root}/idgen-long"

    @property
    def records(self) -> str:
        return f"{self.root}-records"

    @property
    def id_floor(self) -> str:
        return f"{self.root}-ids"

    @property
    def under_replication(self) -> str:
        return f"{self.root}/underreplication"

    def ledger(self, layout: LayoutType, ledger_id: int) -> str:
        return self.root + ledger_path(layout, ledger_id)

    def short_ids(self, layout: LayoutType) -> str:
        """The node whose children count the short ids."""
        return self.root if layout is LayoutType.FLAT else f"{self.root}/idgen"

    def high_bits(self, high: int) -> str:
        """The node whose children count the low 32 bits of long ids that begin with `high`."""
        return f"{self.long_ids}/{HIGH_BITS_PREFIX}{high:010d}"

    def record(self, key: str) -> str:
        return self.records + key.rstrip("/")

    def under_replicated(self, ledger_id: int) -> str:
        """The mark of a ledger that lacks a copy: the four 16-bit groups of its id in hexadecimal."""
        digits = f"{ledger_id:016x}"
        groups = "/".join(digits[at : at + 4] for at in range(0, 16, 4))
        return f"{self.under_replication}/ledgers/{groups}/urL{ledger_id:010d}"


def parents(path: str, above: str) -> list[str]:
    """Every node between `above` (left out) and `path` (left out), from the top down."""
    parts = path.removeprefix(above).split("/")[1:-1]
    return [above + "/" + "/".join(parts[: count + 1]) for count in range(len(parts))]


def parent(path: str) -> str:
    return path.rpartition("/")[0]


def high_bits_of(name: str) -> int | None:
    """The number in `HOB-<10 digits>`, None for any other name."""
    match = _HIGH_BITS.fullmatch(name)
    return int(match[1]) if match else None


def under_replicated_id(name: str) -> LedgerId | None:
    """The id in `urL<id>`, None for any other name."""
    match = _UNDER_REPLICATED.fullmatch(name)
    return LedgerId(int(match[1])) if match and int(match[1]) <= LEDGER_ID_MAX else None
