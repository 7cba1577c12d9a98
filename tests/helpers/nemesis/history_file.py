"""The lines that writer and reader processes leave behind, and the history made of them. No I/O but one append.

Several payloads or ids are separated by commas, and an append's number counts messages.

A line is written before its event is acted upon and reaches the kernel immediately, so kill -9 loses none: an append
without a line about its end was in flight when its process died. All times are CLOCK_MONOTONIC, which the processes
of one machine share.

    t <writer> <asked> <returned> <epoch>                 a takeover
    i <writer> <number> <invoked> <payload, hex>          an append is submitted; several payloads: one append_many
    e <writer> <number> <returned> <outcome> <id or ->    it ended; several ids: those of one append_many
    s <writer> <asked> <answered> <answer> <id> <payload> its outcome, which was unknown, was resolved
    r <reader> <id> <at> <payload, hex>                   a reader returned a message
    w <reader> <opened> <ended> <start or ->              what it returned is everything from there to the tail
    p <reader> <asked> <before>                           `shrink` is called, and the reader has read all below
    q <reader> <returned>                                 it succeeded
    x <who> <text>                                        what must not happen did
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path

from dlog.model import EARLIEST_ID, MessageId
from dlog.testing.checks.history import (
    Append,
    History,
    Observation,
    Outcome,
    Resolved,
    Takeover,
    Trim,
    WholeRead,
)


class HistoryFile:
    """Where one process writes its lines."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def takeover(self, writer: str, asked: float, returned: float, epoch: int) -> None:
        self._write(f"t {writer} {asked!r} {returned!r} {epoch}")

    def invoked(self, writer: str, number: int, at: float, payloads: Sequence[bytes]) -> None:
        """`number`: of the first message."""
        self._write(f"i {writer} {number} {at!r} {','.join(payload.hex() for payload in payloads)}")

    def ended(
        self, writer: str, number: int, at: float, outcome: Outcome, message_ids: Sequence[MessageId]
    ) -> None:
        """One line for all messages of an `append_many`: a process that is killed leaves all or none."""
        self._write(f"e {writer} {number} {at!r} {outcome.value} {','.join(map(str, message_ids)) or '-'}")

    def resolved(
        self, writer: str, asked: float, answered: float, answer: str, message_id: MessageId, payload: bytes
    ) -> None:
        self._write(f"s {writer} {asked!r} {answered!r} {answer} {message_id} {payload.hex()}")

    def returned(self, reader: str, message_id: MessageId, at: float, payload: bytes) -> None:
        self._write(f"r {reader} {message_id} {at!r} {payload.hex()}")

    def whole_read(self, reader: str, opened: float, ended: float, start: MessageId | None) -> None:
        self._write(f"w {reader} {opened!r} {ended!r} {start or '-'}")

    def trim(self, reader: str, asked: float, before: MessageId) -> None:
        """What `reader` has returned is the log below `before`, from the trim that was asked for before this one."""
        self._write(f"p {reader} {asked!r} {before}")

    def trimmed(self, reader: str, returned: float) -> None:
        self._write(f"q {reader} {returned!r}")

    def wrong(self, who: str, text: str) -> None:
        self._write(f"x {who} {text}")

    def _write(self, line: str) -> None:
        os.write(self._fd, f"{line}\n".encode())


def read_history(lines: Iterable[str]) -> History:
    """All files' lines together, in any order of files. A cut last line of a killed process is left out."""
    history = History()
    invoked: dict[tuple[str, int], tuple[float, list[bytes]]] = {}
    ended: dict[tuple[str, int], tuple[float, Outcome, list[MessageId]]] = {}
    takeovers: list[tuple[int, Takeover]] = []
    whole: dict[str, tuple[float, float, MessageId]] = {}
    trims: dict[str, tuple[float, MessageId]] = {}
    trimmed: dict[str, float] = {}
    for line in lines:
        match line.split(" "):
            case ["t", writer, asked, returned, epoch]:
                takeovers.append((int(epoch), Takeover(writer, float(returned), int(epoch), float(asked))))
            case ["i", writer, number, at, payloads]:
                invoked[writer, int(number)] = (
                    float(at),
                    [bytes.fromhex(one) for one in payloads.split(",")],
                )
            case ["e", writer, number, at, outcome, texts]:
                ids = [] if texts == "-" else [MessageId.parse(text) for text in texts.split(",")]
                ended[writer, int(number)] = (float(at), Outcome(outcome), ids)
            case ["s", _, asked, answered, answer, text, payload]:
                resolved = Resolved(bytes.fromhex(payload), MessageId.parse(text), answer)
                history.resolutions.append(replace(resolved, invoked=float(asked), returned=float(answered)))
            case ["r", reader, text, at, payload]:
                seen = Observation(MessageId.parse(text), bytes.fromhex(payload), float(at))
                history.readers.setdefault(reader, []).append(seen)
            case ["w", reader, opened, ended_at, text]:
                start = EARLIEST_ID if text == "-" else MessageId.parse(text)
                whole[reader] = (float(opened), float(ended_at), start)
            case ["p", reader, asked, text]:
                trims[reader] = (float(asked), MessageId.parse(text))
            case ["q", reader, returned]:
                trimmed[reader] = float(returned)
            case ["x", who, *words]:
                raise AssertionError(f"{who}: {' '.join(words)}")
            case _:
                raise AssertionError(f"{line!r} is no line of a history")
    history.takeovers = [takeover for _, takeover in sorted(takeovers, key=lambda pair: pair[0])]
    for (writer, number), (at, sent) in invoked.items():
        returned_at, outcome_of, ids = ended.get((writer, number), (inf, Outcome.INDETERMINATE, []))
        batch = number if len(sent) > 1 else None
        for index, each in enumerate(sent):
            message_id = ids[index] if index < len(ids) else None
            history.appends.append(
                Append(writer, number + index, each, at, returned_at, outcome_of, message_id, batch)
            )
    for reader, (opened_at, closed_at, start) in whole.items():
        seen_ids = frozenset(seen.message_id for seen in history.readers.get(reader, ()))
        history.whole_reads.append(WholeRead(reader, opened_at, seen_ids, start, closed_at))
    for reader, (asked_at, before) in trims.items():
        shadow = tuple((seen.message_id, seen.payload) for seen in history.readers.get(reader, ()))
        history.trims.append(Trim(before, asked_at, shadow, trimmed.get(reader, inf)))
    return history


def whole_lines(path: Path) -> list[str]:
    text = path.read_text()
    return text[: text.rfind("\n") + 1].splitlines()


class NewLines:
    """Whole lines of a history as they come. Costs what is new, however long the history is."""

    def __init__(self, path: Path, read_to: int = 0) -> None:
        self._path = path
        self._read_to = read_to

    def read(self) -> list[str]:
        """Those since the last call, at first those from `read_to` on."""
        with self._path.open("rb") as file:
            file.seek(self._read_to)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._read_to += len(whole)
        return whole.decode().splitlines()


class AckedTail:
    """The acknowledged messages of all writers' files in a directory, as they come."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files: dict[Path, NewLines] = {}

    def newest(self) -> MessageId | None:
        """The highest id acknowledged since the last call; None if there is none."""
        for path in self._directory.glob("w*.history"):
            self._files.setdefault(path, NewLines(path))
        return max((found for file in self._files.values() for found in _acked(file.read())), default=None)


def _acked(lines: Iterable[str]) -> Iterator[MessageId]:
    """The last id of each append that succeeded."""
    for line in lines:
        if line.startswith("e ") and " acked " in line:
            yield MessageId.parse(line.rpartition(" ")[2].rpartition(",")[2])
