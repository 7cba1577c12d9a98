"""Recovery of a ledger without its writer: fence, read forward, write back, close. Pure.

Commands are executed one at a time, and each is answered by an event:

    MarkInRecovery   metadata OPEN → IN_RECOVERY, so that the writer's next metadata change fails   → on_marked
    FenceEnsemble    fencing reads of entry -1 to the last ensemble    → on_fence_answer, for each answer
    ReadEntries      fencing reads of these entries, sent together; await the first    → on_found, on_absent
    AwaitEntry       await the next of them                                            → on_found, on_absent
    WriteBackEntry   send the entry just found to its write set, not waiting for acks  → on_sent_back
    FinishWriteBack  wait until all of them are on their ack quorum                    → on_written_back
    ReadLength       read the header of this confirmed entry, if it can be read        → on_length
    Close            one compare-and-set: CLOSED, with every ensemble change of the write-back
    GiveUp           the ledger stays IN_RECOVERY; recovery may be tried again
    Finish           another client has closed the ledger

Fencing ends when the answers cover every write set; the highest LAC among them is the start. The first entry that is
proved absent ends the ledger. If none was found it ends at the LAC, whose entry need not be readable.

Invariants: nothing that recovery finds is shown to a reader before Close has succeeded. A recovery that dies at any
point is repeated from the start with the same result for every entry that was ever acknowledged. Reads go to the
ensembles that metadata named when recovery began, never to bookies that recovery itself has added.

Protocol: docs/bookkeeper.md#recovery, #recovery-reads, #recovery-close.
Pitfalls: docs/pitfalls.md#recovered-entry-shown-too-early, #reads-from-replacements,
#recovery-below-the-last-fragment.
"""

from __future__ import annotations

from dataclasses import dataclass

from ledger.core.distribution import holds, write_set
from ledger.core.lac import LacCollector
from ledger.model import BookieId, EntryId, LedgerMetadata
from ledger.wire.status import Answer

READ_AHEAD_FIRST = 2


@dataclass(frozen=True, slots=True)
class MarkInRecovery:
    pass


@dataclass(frozen=True, slots=True)
class FenceEnsemble:
    ensemble: tuple[BookieId, ...]


@dataclass(frozen=True, slots=True)
class ReadEntries:
    first: EntryId
    count: int


@dataclass(frozen=True, slots=True)
class AwaitEntry:
    pass


@dataclass(frozen=True, slots=True)
class WriteBackEntry:
    lac: EntryId
    """For the entry's header: the LAC that recovery began with."""


@dataclass(frozen=True, slots=True)
class FinishWriteBack:
    pass


@dataclass(frozen=True, slots=True)
class ReadLength:
    entry_id: EntryId


@dataclass(frozen=True, slots=True)
class Close:
    last_entry: EntryId
    length: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    reason: str
    details: tuple[str, ...]
    """What each bookie that could not be fenced answered."""


@dataclass(frozen=True, slots=True)
class Finish:
    pass


Command = (
    MarkInRecovery
    | FenceEnsemble
    | ReadEntries
    | AwaitEntry
    | WriteBackEntry
    | FinishWriteBack
    | ReadLength
    | Close
    | GiveUp
    | Finish
)


class RecoveryMachine:
    def __init__(self, metadata: LedgerMetadata, read_ahead_max: int) -> None:
        self._metadata = metadata
        self._read_ahead_max = read_ahead_max
        self._collector = LacCollector(metadata)
        self._failures: list[str] = []
        self._responsive: set[BookieId] = set()
        self._last_entry = self._collector.lac
        """The last entry found, or the LAC."""
        self._length: int | None = None
        """Ledger length up to the last entry found; None if none was."""
        self._next_entry = EntryId(0)
        self._unread = self._read_ahead = 0
        """Entries of the reads in progress that are not reported yet; number read together."""

    def start(self) -> Command:
        return MarkInRecovery()

    def on_marked(self, metadata: LedgerMetadata) -> Command:
        """Metadata says IN_RECOVERY, or CLOSED by another client."""
        if metadata.closed:
            return Finish()
        self._metadata = metadata
        self._collector = LacCollector(metadata)
        return FenceEnsemble(metadata.last_fragment.ensemble)

    # ---- fencing

    def on_fence_answer(
        self, position: int, answer: Answer, lac: int, length: int, failure: str
    ) -> Command | None:
        """The member's LAC and length, from its last entry's header: YES; it has none: PROVED_NO; or why neither.

        None: wait for the other members' answers.
        """
        if answer is Answer.UNKNOWN:
            self._collector.on_failure(position)
            self._failures.append(failure)
        else:
            self._collector.on_answer(position, lac, length)
            self.on_responsive(self._metadata.last_fragment.ensemble[position])
        if self._collector.covered:
            self._last_entry = self._collector.lac
            self._next_entry = EntryId(self._collector.lac + 1)
            return self._read_on()
        if self._collector.exhausted:
            return GiveUp("too few bookies could be fenced", tuple(self._failures))
        return None

    def lacks_confirmed(self, position: int, last: int) -> bool:
        """Whether the member, which held nothing above `last` when it was fenced, lacks entries up to the LAC.

        These are not written back. Known once reading forward has begun.
        """
        first = max(last + 1, self._metadata.last_fragment.first_entry)
        quorum = self._metadata.quorum
        return any(holds(position, entry_id, quorum) for entry_id in range(first, self._collector.lac + 1))

    # ---- reading forward

    def replicas(self, entry_id: int) -> list[BookieId]:
        """The entry's write set, in the order to ask them: a hung bookie must not slow every entry down."""
        ensemble = self._metadata.fragment_of(entry_id).ensemble
        replicas = [ensemble[position] for position in write_set(entry_id, self._metadata.quorum)]
        return sorted(replicas, key=lambda bookie_id: bookie_id not in self._responsive)

    def on_responsive(self, bookie_id: BookieId) -> None:
        """The bookie answered: ask it first from now on."""
        self._responsive.add(bookie_id)

    def on_unresponsive(self, bookie_id: BookieId) -> None:
        """The bookie failed, or was so slow that another was faster: ask it last from now on."""
        self._responsive.discard(bookie_id)

    def on_found(self, entry_id: EntryId, length: int) -> Command:
        """The next entry exists, with this ledger length in its header."""
        assert entry_id == self._last_entry + 1
        self._last_entry, self._length = entry_id, length
        self._unread -= 1
        return WriteBackEntry(self._collector.lac)

    def on_sent_back(self) -> Command:
        return AwaitEntry() if self._unread else self._read_on()

    def on_absent(self) -> Command:
        """The next entry is proved absent: the ledger ends before it."""
        return FinishWriteBack()

    def _read_on(self) -> Command:
        """Read the next entries, few at first, since most ledgers end within an entry or two."""
        first = self._next_entry
        self._read_ahead = min(self._read_ahead_max, max(READ_AHEAD_FIRST, 2 * self._read_ahead))
        self._unread = self._read_ahead
        self._next_entry = EntryId(first + self._read_ahead)
        return ReadEntries(first, self._read_ahead)

    @property
    def first_is_confirmed(self) -> bool:
        """Whether reading forward began beyond the first entry."""
        return self._collector.lac >= 0

    # ---- the end

    def on_written_back(self) -> Command:
        if self._length is not None:
            return Close(self._last_entry, self._length)
        if self._last_entry < 0:
            return Close(self._last_entry, 0)
        return ReadLength(self._last_entry)

    @property
    def claimed_length(self) -> int:
        """Ledger length that the header with the highest LAC claims; 0 if only the fragment's start gave the LAC."""
        return self._collector.length

    def on_length(self, length: int | None) -> Command:
        """The length in the header of the LAC's entry, None if it cannot be read.

        Invariant: that entry decides nothing. It is confirmed, and all above is proved absent, so the ledger ends
        here whether it can be read now or not: if the last fragment is empty, only older bookies have it, and these
        may be gone for good. Then the length is recorded as Apache's client does, as claimed. No reader relies on it.
        """
        return Close(self._last_entry, self.claimed_length if length is None else length)
