"""Ledger id ↔ node path below the root, for each of BookKeeper's layouts. Pure.

    short   10 digits split 2-4-4         /DD/DDDD/LDDDD
    long    19 digits split 3-4-4-4-4     /DDD/DDDD/DDDD/DDDD/LDDDD
    flat    /L and 10 digits

Hierarchical, the default, is short below 2147483647 and long from there on, so one tree holds both forms.

Protocol: docs/bookkeeper.md#zookeeper-paths.
"""

from __future__ import annotations

import re

from ledger.errors import ConfigurationError, MetadataFormatError
from ledger.metadata.format.layout import LayoutType
from ledger.model import LEDGER_ID_MAX, LedgerId

SHORT_ID_END = 2**31 - 1
"""First id that hierarchical writes in the long form (Java's Integer.MAX_VALUE)."""
TEN_DIGIT_ID_MAX = 10**10 - 1

_SHORT = re.compile(r"/([0-9]{2})/([0-9]{4})/L([0-9]{4})")
_LONG = re.compile(r"/([0-9]{3})/([0-9]{4})/([0-9]{4})/([0-9]{4})/L([0-9]{4})")
_FLAT = re.compile(r"/L([0-9]{10})")
_FORMS = {
    LayoutType.FLAT: (_FLAT,),
    LayoutType.LEGACY_HIERARCHICAL: (_SHORT,),
    LayoutType.LONG_HIERARCHICAL: (_LONG,),
    LayoutType.HIERARCHICAL: (_SHORT, _LONG),
}
_FIRST_LEVELS = {
    LayoutType.FLAT: re.compile(r"L[0-9]{10}"),
    LayoutType.LEGACY_HIERARCHICAL: re.compile(r"[0-9]{2}"),
    LayoutType.LONG_HIERARCHICAL: re.compile(r"[0-9]{3}"),
    LayoutType.HIERARCHICAL: re.compile(r"[0-9]{2,3}"),
}


def ledger_path(layout: LayoutType, ledger_id: int) -> str:
    """Path below the root. ConfigurationError if the layout has no room for the id."""
    ten_digits = layout in (LayoutType.FLAT, LayoutType.LEGACY_HIERARCHICAL)
    limit = TEN_DIGIT_ID_MAX if ten_digits else LEDGER_ID_MAX
    if not 0 <= ledger_id <= limit:
        raise ConfigurationError(
            f"ledger id {ledger_id} is outside 0 to {limit}, the {layout.value} layout's range"
        )
    if layout is LayoutType.FLAT:
        return f"/L{ledger_id:010d}"
    if layout is LayoutType.LONG_HIERARCHICAL or (not ten_digits and ledger_id >= SHORT_ID_END):
        return _long(ledger_id)
    return _short(ledger_id)


def ledger_id_of(layout: LayoutType, path: str) -> LedgerId:
    """The id whose path this is; MetadataFormatError for any path that `ledger_path` never gives."""
    for form in _FORMS[layout]:
        match = form.fullmatch(path)
        if match:
            ledger_id = int("".join(match.groups()))
            if ledger_id <= LEDGER_ID_MAX and ledger_path(layout, ledger_id) == path:
                return LedgerId(ledger_id)
    raise MetadataFormatError(f"{path[:100]!r} is not a ledger's path in the {layout.value} layout")


def is_first_level(layout: LayoutType, name: str) -> bool:
    """Whether a child of the root belongs to the ledger tree (others are `available`, `cookies`, …)."""
    return _FIRST_LEVELS[layout].fullmatch(name) is not None


def _short(ledger_id: int) -> str:
    digits = f"{ledger_id:010d}"
    return f"/{digits[:2]}/{digits[2:6]}/L{digits[6:]}"


def _long(ledger_id: int) -> str:
    digits = f"{ledger_id:019d}"
    return f"/{digits[:3]}/{digits[3:7]}/{digits[7:11]}/{digits[11:15]}/L{digits[15:]}"
