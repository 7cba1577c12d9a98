"""C14: every entry has its ack quorum of intact, equal copies, when it is acknowledged or read, and after healing.

`AllCommittedEntriesReachAckQuorum` of BookKeeper's TLA+ specification. `AckedCopies` checks at the instant of an
acknowledgement, and when a reader is the first to return the message: an add that was under way then mostly arrives a
moment later, so the copies at the end of a run do not show that one was missing. `CopyAudit` reads each replica after
healing. The write quorum is reached only by repair: that half is checked when asked for (`repaired`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from dlog.model import MessageId
from dlog.testing.bookies import SimulatedBookie
from dlog.testing.checks.checks import FINDINGS_MAX
from dlog.testing.cluster import SimulatedCluster
from ledger.client import LedgerClient
from ledger.core.distribution import write_set
from ledger.errors import BookieUnavailableError
from ledger.model import BookieId, BookieInfo, LedgerId, LedgerMetadata
from ledger.reading.bookie_reads import read_entry
from ledger.transport.pool import ConnectionPool
from ledger.wire.digest import Digester, make_digester
from ledger.wire.status import Answer

_ANSWER_S = 10.0
_TRIES = 3
"""A connection from before a bookie's restart fails the first request."""
_PAUSE_S = 1.0


@dataclass(slots=True)
class _Copies:
    payloads: list[bytes] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)
    """Bookies without a copy, and what each answered."""


class CopyAudit:
    """Reads every copy of sealed ledgers.

    A bookie that was lost for good, or whose disk was damaged, need not have what it reported durable; but an entry
    must have as many copies fewer, and no more: one at least. One that was decommissioned had been replaced before.
    """

    def __init__(self, ledgers: LedgerClient, bookies: Iterable[SimulatedBookie] = ()) -> None:
        """`bookies`: of which some may be lost or damaged."""
        self._ledgers = ledgers
        self._unsound = {each.bookie_id: each for each in bookies if not each.sound}
        self._pool = ConnectionPool(self._where, ledgers.config)

    async def _where(self, bookie_id: BookieId) -> BookieInfo | None:
        return self._ledgers.bookies().find(bookie_id)

    async def close(self) -> None:
        await self._pool.close()

    async def ledger(self, ledger_id: LedgerId, *, repaired: bool = False) -> list[str]:
        """The violations among the copies of this ledger, as sentences."""
        metadata = (await self._ledgers.store.read_ledger(ledger_id)).value
        digester = make_digester(metadata.digest_type, metadata.password)
        quorum = metadata.quorum.write if repaired else metadata.quorum.ack
        name = "c14_write_quorum_after_repair" if repaired else "c14_AllCommittedEntriesReachAckQuorum"
        wrong = []
        for entry_id in range(metadata.last_entry + 1):
            copies = _Copies()
            needed = quorum
            for bookie_id in write_set_of(metadata, entry_id):
                unsound = self._unsound.get(bookie_id)
                if unsound is None or unsound.serving:
                    await self._ask(bookie_id, ledger_id, entry_id, digester, copies)
                if unsound is not None and not unsound.decommissioned:
                    needed -= unsound.durable.reported(ledger_id, entry_id)
            if len(copies.payloads) < max(1, needed) or len(set(copies.payloads)) != 1:
                wrong.append(
                    f"{name}: entry {ledger_id}:{entry_id} has "
                    f"{len(copies.payloads)} copies, {len(set(copies.payloads))} different, needed {needed}; "
                    f"{'; '.join(copies.lacking)}; fragments {metadata.fragments}"
                )
        return wrong

    async def _ask(
        self, bookie_id: BookieId, ledger_id: LedgerId, entry_id: int, digester: Digester, copies: _Copies
    ) -> None:
        reason: Exception | None = None
        for attempt in range(1 if bookie_id in self._unsound else _TRIES):
            if attempt:
                await asyncio.sleep(_PAUSE_S)
            try:
                connection = await self._pool.entries(bookie_id)
            except BookieUnavailableError as error:
                reason = error
                continue
            answer = await read_entry(connection, ledger_id, entry_id, digester, _ANSWER_S)
            if answer.entries:
                copies.payloads += [bytes(entry.payload) for entry in answer.entries]
                return
            reason = answer.reason
            if answer.answer is Answer.PROVED_NO:
                break
        copies.lacking.append(str(reason))


def write_set_of(metadata: LedgerMetadata, entry_id: int) -> list[BookieId]:
    """The bookies that the entry is written to."""
    ensemble = metadata.fragment_of(entry_id).ensemble
    return [ensemble[position] for position in write_set(entry_id, metadata.quorum)]


async def audit(
    ledgers: LedgerClient,
    ledger_ids: Iterable[LedgerId],
    bookies: Iterable[SimulatedBookie] = (),
    *,
    repaired: bool = False,
) -> list[str]:
    """The same for each of these ledgers."""
    copies = CopyAudit(ledgers, bookies)
    try:
        return [
            wrong for ledger_id in ledger_ids for wrong in await copies.ledger(ledger_id, repaired=repaired)
        ]
    finally:
        await copies.close()


class AckedCopies:
    """Checks which bookies have reported the entry durable. A bookie that is down may have a copy: no false alarms."""

    def __init__(self, cluster: SimulatedCluster, ack: int, wrong: list[str]) -> None:
        """`ack`: the copies that an acknowledgement guarantees. Violations are appended to `wrong`, as sentences."""
        self._metadata = cluster.metadata
        self._bookies = cluster.bookies
        self._ack = ack
        self._wrong = wrong
        self._found = 0

    def on_acked(self, message_id: MessageId) -> None:
        """Check the copies of this message's entry; its append has just been acknowledged."""
        self._check(message_id, "c14_acknowledged_on_an_ack_quorum", "acknowledged")

    def on_read(self, message_id: MessageId) -> None:
        """A reader has just returned the message, before its append or after it was acknowledged."""
        self._check(message_id, "c14_read_from_an_ack_quorum", "returned to a reader")

    def _check(self, message_id: MessageId, name: str, what: str) -> None:
        ledger_id, entry_id = message_id.ledger_id, message_id.entry_id
        metadata = self._metadata.ledger(ledger_id)
        if metadata is None or self._found == FINDINGS_MAX:
            return  # trimmed in the meantime, or enough violations are reported
        members = {*write_set_of(metadata, entry_id)}
        lacking = {
            each.bookie_id
            for each in self._bookies
            if each.bookie_id in members and each.durable.certainly_lacks(ledger_id, entry_id)
        }
        have = members - lacking
        if len(have) < self._ack:
            self._found += 1
            self._wrong.append(
                f"{name}: {message_id} was {what} when at most {len(have)} of "
                f"{', '.join(sorted(members))} had it, it needs {self._ack}"
            )
