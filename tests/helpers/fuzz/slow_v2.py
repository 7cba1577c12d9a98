"""A second decoder of version 2, written from the table of docs/bookkeeper.md alone and in no hurry.

It returns the fields of a message as a dict, or None for what is no message. What it and ledger/wire/v2.py disagree
about is a bug in one of them.
"""

from __future__ import annotations

from typing import Any

STATUSES = {0, 1, 2, 100, 101, 102, 103, 104, 105, 106, 107}
Fields = dict[str, Any]


def request(body: bytes) -> Fields | None:
    if len(body) < 4:
        return None
    fields, opcode = _header(body)
    if opcode == 1:
        return _add(fields, body)
    if opcode == 2:
        return _with_key(fields | {"kind": "ReadRequest"}, body, [("ledger_id", 8), ("entry_id", 8)])
    if opcode == 7:
        layout = [("ledger_id", 8), ("entry_id", 8), ("request_id", 8), ("max_count", 4), ("max_bytes", 8)]
        return _with_key(fields | {"kind": "BatchReadRequest"}, body, layout)
    return None


def response(body: bytes) -> Fields | None:
    if len(body) < 4:
        return None
    fields, opcode = _header(body)
    if fields["flags"] or fields["ignored_bits"] or opcode not in (1, 2, 7):
        return None
    taken = _numbers(body, 4, [("status", 4), ("ledger_id", 8), ("entry_id", 8)])
    if taken is None:
        return None
    fields |= taken
    if fields["status"] not in STATUSES:
        return None
    if opcode == 1:
        return fields | {"kind": "AddResponse"} if len(body) == 24 else None
    if opcode == 2:
        if fields["status"] != 0:
            return fields | {"kind": "ReadResponse", "entry": None} if len(body) == 24 else None
        return fields | {"kind": "ReadResponse", "entry": body[24:]}
    return _batch_response(fields, body)


def _batch_response(fields: Fields, body: bytes) -> Fields | None:
    taken = _numbers(body, 24, [("request_id", 8)])
    if taken is None:
        return None
    entries, rest = [], body[32:]
    while rest:
        size = int.from_bytes(rest[:4], "big", signed=True)
        if len(rest) < 4 or size < 0 or len(rest) < 4 + size:
            return None
        entries.append(rest[4 : 4 + size])
        rest = rest[4 + size :]
    if (fields["status"] == 0) != (len(entries) > 0):
        return None
    return fields | taken | {"kind": "BatchReadResponse", "entries": tuple(entries)}


def _add(fields: Fields, body: bytes) -> Fields | None:
    if len(body) < 4 + 20 + 16:
        return None
    return fields | {"kind": "AddRequest", "master_key": body[4:24], "entry": body[24:]}


def _with_key(fields: Fields, body: bytes, layout: list[tuple[str, int]]) -> Fields | None:
    taken = _numbers(body, 4, layout)
    if taken is None:
        return None
    end = 4 + sum(size for _, size in layout)
    key = None
    if fields["flags"] & 1 and fields["version"] >= 2:
        if len(body) < end + 20:
            return None
        key, end = body[end : end + 20], end + 20
    return fields | taken | {"master_key": key, "trailing": body[end:]}


def _numbers(body: bytes, at: int, layout: list[tuple[str, int]]) -> Fields | None:
    taken: Fields = {}
    for name, size in layout:
        if len(body) < at + size:
            return None
        taken[name] = int.from_bytes(body[at : at + size], "big", signed=name != "status")
        at += size
    return taken


def _header(body: bytes) -> tuple[Fields, int]:
    version = body[0]
    if version == 0:
        ignored = body[1] * 256 + body[2]
        return {"version": 0, "flags": 0, "ignored_bits": ignored}, body[3]
    return {"version": version, "flags": body[2] * 256 + body[3], "ignored_bits": 0}, body[1]
