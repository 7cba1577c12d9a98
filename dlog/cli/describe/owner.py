"""Who owns a log, and whether its writer has closed. Pure."""

from __future__ import annotations

from dlog.cli.output import instant, json_instant
from dlog.model import LogMetadata, Owner
from dlog.write.current_owner import is_released


def owner_text(record: LogMetadata) -> str:
    owner = record.owner
    if owner is None:
        return "none yet"
    return f"{process_text(owner)} since {instant(owner.started_us)}, instance {owner.instance}"


WRITER_TEXTS = {
    None: "none yet",
    "open": "not closed: it runs, or has ended without closing",
    "closed": "closed",
}


def writer_state(record: LogMetadata) -> str | None:
    """What the record shows of the owner's writer: that of a killed process stays open in it."""
    if record.owner is None:
        return None
    return "closed" if is_released(record) else "open"


def process_text(owner: Owner) -> str:
    name = f"{owner.name} " if owner.name else ""
    return f"{name}process {owner.process_id} on {owner.host}"


def owner_document(owner: Owner | None) -> dict[str, object] | None:
    if owner is None:
        return None
    return {
        "name": owner.name or None,
        "host": owner.host,
        "process": owner.process_id,
        "since": json_instant(owner.started_us),
        "instance": owner.instance,
    }
