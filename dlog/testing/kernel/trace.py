"""What happened in a run: readable at its end, and one hash that proves two runs equal."""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Callable

REMEMBERED_MAX = 20_000
"""Notes kept for the timeline; the hash and the counts cover all of them."""
_HASHED_AT_ONCE = 256

_DETAILS = ("disk.", "metadata.change", "fault.process_crash")
"""Kinds of notes that are many and say little to people."""

Note = tuple[float, str, str, str]


class Trace:
    """Notes of one run, in the order in which they were taken.

    `digest` covers every note ever taken, with its time, and what each of `sources` says; `details` are for
    people only, are off unless asked for, and never change the digest.
    """

    def __init__(self, now: Callable[[], float], remembered_max: int = REMEMBERED_MAX) -> None:
        self.counts: Counter[str] = Counter()
        """Notes by kind. Faults have the kind "fault.<name>"."""
        self.with_events = False
        """Whether messages between programs, and what became durable, are remembered. Set before they start."""
        self.detailed = False
        """Whether details, such as each effect on a disk, are remembered."""
        self.sources: list[Callable[[], object]] = []
        """More that the digest covers: whatever sums itself up more cheaply than by notes."""
        self._now = now
        self._began = now()
        self._remembered: deque[Note] = deque(maxlen=remembered_max)
        self._unhashed: list[Note] = []
        self._hash = hashlib.sha256()
        self._ended = False

    def note(self, kind: str, node: str, text: str) -> None:
        """Record that this happened on this node, now."""
        if self._ended:
            return
        note = (self._now(), kind, node, text)
        self.counts[kind] += 1
        if self.detailed or not kind.startswith(_DETAILS):
            self._remembered.append(note)
        self._unhashed.append(note)
        if len(self._unhashed) >= _HASHED_AT_ONCE:
            self._hash_notes()

    def event(self, kind: str, node: str, text: str) -> None:
        """Remember this for the timeline, if events are wanted. Callers on a hot path check `with_events` first."""
        if self.with_events and not self._ended:
            self._remembered.append((self._now(), kind, node, text))

    def detail(self, kind: str, node: str, text: str) -> None:
        """Remember this for the timeline, if details are wanted. Callers on a hot path check `detailed` first."""
        if self.detailed and not self._ended:
            self._remembered.append((self._now(), kind, node, text))

    def digest(self) -> str:
        """The same in two runs if, and practically only if, the same happened in both."""
        self._hash_notes()
        whole = self._hash.copy()
        for source in self.sources:
            whole.update(repr(source()).encode())
        return whole.hexdigest()

    def timeline(self, last: int | None = None) -> str:
        """The last notes, or all that are remembered, one line each: time since the start, node, what, more of it."""
        notes = list(self._remembered)
        if last is not None:
            notes = notes[max(0, len(notes) - last) :]
        lines = [(when - self._began, node, _shown(kind), text) for when, kind, node, text in notes]
        width = max((len(node) for _, node, _, _ in lines), default=0)
        kinds = max((len(kind) for _, _, kind, _ in lines), default=0)
        return "\n".join(
            f"{when:12.6f}  {node:<{width}}  {kind:<{kinds}}  {text}".rstrip()
            for when, node, kind, text in lines
        )

    def end(self) -> None:
        """The run is over: whatever is noted from now on did not happen in it."""
        self._ended = True

    def _hash_notes(self) -> None:
        if self._unhashed:
            self._hash.update(repr(self._unhashed).encode())
            self._unhashed.clear()


def _shown(kind: str) -> str:
    """Faults stand out; of other notes the part that says what, not of whom."""
    return f"!! {kind.removeprefix('fault.')}" if kind.startswith("fault.") else kind.rpartition(".")[2]
