"""What the scrubber remembers: the pass under way, where it goes on, and how the last one ended. Pure.

A JSON document, `docs/formats.md#scrub-record-version-1`. It is never needed: one that is missing, damaged or of a
newer version means that the next pass begins at the beginning. Earlier builds, which know neither positions in files
nor what is not in the index nor that it is damaged, write and expect records without them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from bookie_server.storage.scrub.file_walk import FilePosition
from bookie_server.storage.scrub.walk import BEGINNING, Position, Step

VERSION = 1
LEDGERS_MAX = 1000
"""Damaged ledgers that a pass names; more are only counted as blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubPass:
    """One pass over everything that is stored. Times are ms since 1970."""

    began_ms: int
    ended_ms: int | None = None
    """None while it is under way."""
    blocks: int = 0
    block_bytes: int = 0
    damaged_blocks: int = 0
    damaged_ledgers: tuple[int, ...] = ()
    """Ascending; of at most LEDGERS_MAX."""
    unindexed_blocks: int = 0
    """Intact blocks with entries to which the index did not lead."""
    restored_blocks: int = 0
    """Of these: the index leads to all their entries again."""
    index_damaged: bool = False
    """Parts of the index could not be read, so that not every block was checked."""

    def after(self, step: Step) -> ScrubPass:
        ledgers = sorted({*self.damaged_ledgers, *(each.ledger_id for each in step.damage)})
        return replace(
            self,
            blocks=self.blocks + step.blocks,
            block_bytes=self.block_bytes + step.block_bytes,
            damaged_blocks=self.damaged_blocks + len(step.damage),
            damaged_ledgers=tuple(ledgers[:LEDGERS_MAX]),
            index_damaged=self.index_damaged or bool(step.index_damage),
        )

    def with_unindexed(self, found: int, restored: int) -> ScrubPass:
        return replace(
            self,
            unindexed_blocks=self.unindexed_blocks + found,
            restored_blocks=self.restored_blocks + restored,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubRecord:
    current: ScrubPass | None = None
    position: Position | FilePosition = BEGINNING
    """Where the current pass goes on: in the index, or after that in the files."""
    last: ScrubPass | None = None
    """The last complete pass."""


def encode_scrub_record(record: ScrubRecord) -> bytes:
    return json.dumps({"version": VERSION, **asdict(record)}, indent=1).encode() + b"\n"


def decode_scrub_record(data: bytes) -> ScrubRecord:
    """The record; an empty one if it is not a record of this version."""
    try:
        fields = json.loads(data)
        if fields["version"] != VERSION:
            return ScrubRecord()
        return ScrubRecord(
            current=_pass(fields["current"]),
            position=_position(fields["position"]),
            last=_pass(fields["last"]),
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return ScrubRecord()


def _position(fields: Mapping[str, Any]) -> Position | FilePosition:
    if "log_id" in fields:
        return FilePosition(_key_part(fields["log_id"]), _key_part(fields["offset"]))
    return Position(_key_part(fields["ledger_id"]), _key_part(fields["entry_id"]))


def _key_part(value: Any) -> int:
    """ValueError: no key of the index has such a number, so a walk could not begin there."""
    number = int(value)
    if not 0 <= number < 2**64:
        raise ValueError(f"{number} is not in 0..2**64 - 1")
    return number


def _pass(fields: Mapping[str, Any] | None) -> ScrubPass | None:
    return None if fields is None else decode_scrub_pass(fields)


def decode_scrub_pass(fields: Mapping[str, Any]) -> ScrubPass:
    """A pass from its fields as JSON has them. ValueError, KeyError, TypeError."""
    return ScrubPass(
        began_ms=int(fields["began_ms"]),
        ended_ms=None if fields["ended_ms"] is None else int(fields["ended_ms"]),
        blocks=int(fields["blocks"]),
        block_bytes=int(fields["block_bytes"]),
        damaged_blocks=int(fields["damaged_blocks"]),
        damaged_ledgers=tuple(int(each) for each in fields["damaged_ledgers"]),
        unindexed_blocks=int(fields.get("unindexed_blocks", 0)),
        restored_blocks=int(fields.get("restored_blocks", 0)),
        index_damaged=bool(fields.get("index_damaged", False)),
    )
