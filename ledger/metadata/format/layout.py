"""LAYOUT ↔ bytes: which ledger manager laid out the store. Pure.

    2 LF <factory class name> : <factory version>        no newline at the end

Format 1 has the short type name where the class name stands. A layout that exists is obeyed; a configuration
that names another one is refused (docs/bookkeeper.md#layout). Table: docs/formats.md, Metadata values.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ledger.digits import whole_number
from ledger.errors import LayoutMismatchError, MetadataFormatError

LAYOUT_BYTES_MAX = 1024
_FORMAT_MAX = 999
"""What is higher is no format of a later version, but damage."""
_PACKAGE = "org.apache.bookkeeper.meta."


class LayoutType(Enum):
    """Ledger managers of BookKeeper. The value is the short name, as in `zk+<name>://`."""

    FLAT = "flat"
    HIERARCHICAL = "hierarchical"
    LEGACY_HIERARCHICAL = "legacyhierarchical"
    LONG_HIERARCHICAL = "longhierarchical"

    @property
    def factory(self) -> str:
        return _PACKAGE + _FACTORIES[self]


_FACTORIES = {
    LayoutType.FLAT: "FlatLedgerManagerFactory",
    LayoutType.HIERARCHICAL: "HierarchicalLedgerManagerFactory",
    LayoutType.LEGACY_HIERARCHICAL: "LegacyHierarchicalLedgerManagerFactory",
    LayoutType.LONG_HIERARCHICAL: "LongHierarchicalLedgerManagerFactory",
}
_BY_NAME = {1: {kind.value: kind for kind in LayoutType}, 2: {kind.factory: kind for kind in LayoutType}}


@dataclass(frozen=True, slots=True)
class Layout:
    type: LayoutType = LayoutType.HIERARCHICAL
    format_version: int = 2


def encode_layout(layout: Layout) -> bytes:
    name = layout.type.value if layout.format_version == 1 else layout.type.factory
    return f"{layout.format_version}\n{name}:1".encode()


def decode_layout(data: bytes) -> Layout:
    """The layout, or MetadataFormatError. A ledger manager that we do not know is an error too."""
    first, newline, rest = data[:LAYOUT_BYTES_MAX].partition(b"\n")
    if newline and (newer := whole_number(first, _FORMAT_MAX)) and newer > 2:
        raise MetadataFormatError(
            f"the store's LAYOUT has format {str(newer)!r}, this program reads 1 and 2: use a newer version",
            newer_version=newer,
        )
    if not newline or first not in (b"1", b"2"):
        raise MetadataFormatError(
            f"the store's LAYOUT is damaged, it begins with {first[:20].decode(errors='replace')!r} and not with its "
            "format, 1 or 2: restore it from a backup"
        )
    name, _, version = rest.rpartition(b":")
    kind = _BY_NAME[int(first)].get(name.decode(errors="replace"))
    if kind is None or version != b"1" or len(data) > LAYOUT_BYTES_MAX:
        raise MetadataFormatError(
            f"the store's LAYOUT names {rest[:100]!r}, a ledger manager that is not known here: use a newer version, "
            "or restore it from a backup"
        )
    return Layout(kind, int(first))


def obey(found: Layout, configured: LayoutType | None) -> LayoutType:
    """The type to work with. LayoutMismatchError if the configuration insists on another one."""
    if configured is not None and configured is not found.type:
        raise LayoutMismatchError(
            f"the store is laid out as {found.type.value} and the address asks for {configured.value}: "
            f"use {found.type.value}, or leave the type out of the address"
        )
    return found.type
