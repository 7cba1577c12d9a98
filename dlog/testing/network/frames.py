"""What a frame says, in a few words: `ADD 3:17 lac 16 (recovery)`, `ADD 3:17 EOK`. Pure; the codecs are production's.

Invariant: a connection speaks v3 until its client sends what is none, and v2 from then on, as a bookie sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from struct import Struct

from ledger.errors import ProtocolError
from ledger.wire import messages as m
from ledger.wire import v2, v3
from ledger.wire.entry import ENTRY_IDS, Buffer

_LAC_PACKET = Struct(">qq")
"""Ledger id and LAC; a digest follows."""


@dataclass(frozen=True, slots=True)
class Said:
    """One message. Those that differ only in consecutive entries are shown as one."""

    verb: str
    ledger_id: int | None = None
    entry_id: int | None = None
    last_id: int | None = None
    """Of a run of entries."""
    besides: str = ""
    lac: int | None = None
    """The last of a run's counts."""

    def __str__(self) -> str:
        where = "" if self.ledger_id is None else f" {self.ledger_id}"
        if self.entry_id is not None:
            where += f":{self.entry_id}" if self.entry_id >= 0 else ":last"
        if self.last_id is not None and self.last_id != self.entry_id:
            where += f"..{self.last_id}"
        lac = "" if self.lac is None else f" lac {self.lac}"
        return self.verb + where + lac + (f" {self.besides}" if self.besides else "")

    def follows(self, other: Said) -> bool:
        """Whether it is about the entry after the other's, and says the same."""
        return (
            (self.verb, self.ledger_id, self.besides) == (other.verb, other.ledger_id, other.besides)
            and self.entry_id is not None
            and self.verb == "ADD"
            and self.entry_id == (other.entry_id if other.last_id is None else other.last_id) + 1  # type: ignore[operator]  # it has one: verb and besides are the same
        )


class Dialect:
    """Reads both directions of one connection."""

    def __init__(self) -> None:
        self._speaks_v2 = False

    def request(self, body: Buffer) -> Said:
        if not self._speaks_v2 and v3.looks_like_v3(body):
            try:
                return _v3_request(v3.decode_request(body))
            except ProtocolError:
                pass
        self._speaks_v2 = True
        return _or_bytes(body, lambda: _v2_request(v2.decode_request(body)))

    def response(self, body: Buffer) -> Said:
        if self._speaks_v2:
            return _or_bytes(body, lambda: _v2_response(v2.decode_response(body)))
        return _or_bytes(body, lambda: _v3_response(v3.decode_response(body)))


def in_runs(said: Iterable[Said]) -> list[Said]:
    """Adds of consecutive entries as one."""
    runs: list[Said] = []
    for each in said:
        if runs and each.follows(runs[-1]):
            first = runs[-1]
            runs[-1] = Said(
                first.verb, first.ledger_id, first.entry_id, each.entry_id, first.besides, each.lac
            )
        else:
            runs.append(each)
    return runs


def _or_bytes(body: Buffer, decode: Callable[[], Said]) -> Said:
    try:
        return decode()
    except ProtocolError as error:
        return Said(f"{len(body)} bytes", besides=f"that mean nothing: {error}")


def _v2_request(message: m.V2Request) -> Said:
    match message:
        case m.AddRequest():
            return _add(message.entry, recovery=message.recovery)
        case m.BatchReadRequest():
            count = f"at most {message.max_count}" if message.max_count > 0 else "and on"
            return Said("READ", message.ledger_id, message.entry_id, besides=count + _fence(message.fencing))
        case m.ReadRequest():
            return Said("READ", message.ledger_id, message.entry_id, besides=_fence(message.fencing).strip())
        case m.AuthMessage():
            return Said("AUTH", besides=message.plugin_name)


def _v2_response(message: m.V2Response) -> Said:
    match message:
        case m.AddResponse():
            return Said("ADD", message.ledger_id, message.entry_id, besides=message.status.name)
        case m.BatchReadResponse():
            last = message.entry_id + max(0, len(message.entries) - 1)
            return Said("READ", message.ledger_id, message.entry_id, last, message.status.name)
        case m.ReadResponse():
            return _read(message.status.name, message.ledger_id, message.entry_id, message.entry)
        case m.AuthMessage():
            return Said("AUTH", besides="answer")


def _v3_request(message: m.V3Request) -> Said:
    match message.body:
        case m.V3AddRequest() as add:
            return _add(add.entry, recovery=add.recovery)
        case m.V3ReadRequest() as read:
            wait = f"(waits for more than {read.previous_lac})" if read.long_poll else ""
            return Said("READ", read.ledger_id, read.entry_id, besides=wait + _fence(read.fencing).strip())
        case m.WriteLacRequest() as write:
            return Said("WRITE_LAC", write.ledger_id, lac=write.lac)
        case m.ReadLacRequest() | m.ForceLedgerRequest() | m.ListEntriesRequest() as about:
            return Said(message.operation.name, about.ledger_id)
        case _:
            return Said(message.operation.name)


def _v3_response(message: m.V3Response) -> Said:
    status = message.outcome.name
    match message.body:
        case m.V3AddResponse() as add:
            return Said("ADD", add.ledger_id, add.entry_id, besides=status)
        case m.V3ReadResponse() as read:
            said = _read(status, read.ledger_id, read.entry_id, read.entry)
            return said if read.max_lac is None else Said(*_parts(said), read.max_lac)
        case m.ReadLacResponse() as lac:
            known = [] if lac.last_entry is None else [ENTRY_IDS.unpack_from(lac.last_entry)]
            last = "".join(f", last entry {entry_id} with lac {its_lac}" for _, entry_id, its_lac in known)
            explicit = None if lac.lac_packet is None else _LAC_PACKET.unpack_from(lac.lac_packet)[1]
            return Said("READ_LAC", lac.ledger_id, besides=status + last, lac=explicit)
        case m.WriteLacResponse() | m.ForceLedgerResponse() | m.ListEntriesResponse() as about:
            return Said(message.operation.name, about.ledger_id, besides=status)
        case _:
            return Said(message.operation.name, besides=status)


def _parts(said: Said) -> tuple[str, int | None, int | None, int | None, str]:
    return said.verb, said.ledger_id, said.entry_id, said.last_id, said.besides


def _add(entry: Buffer, *, recovery: bool) -> Said:
    ledger_id, entry_id, lac = ENTRY_IDS.unpack_from(entry)
    return Said("ADD", ledger_id, entry_id, besides="(recovery)" if recovery else "", lac=lac)


def _read(status: str, ledger_id: int, entry_id: int, entry: Buffer | None) -> Said:
    if entry is None:
        return Said("READ", ledger_id, entry_id, besides=status)
    _, found, lac = ENTRY_IDS.unpack_from(entry)
    return Said("READ", ledger_id, found, besides=f"{status} {len(entry)} bytes", lac=lac)


def _fence(fencing: bool) -> str:
    return " (fence)" if fencing else ""
