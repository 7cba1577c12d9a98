"""The lines that writer and reader processes leave behind, and the history made of them. No I/O but one append.

A line is written before its event is acted upon and reaches the kernel at once, so kill -9 loses none: an append
without a line about its end was in flight when its process died.

    t <writer> <returned> <epoch>                         a takeover
    i <writer> <number> <invoked> <payload, hex>          an append is handed over
    e <writer> <number> <returned> <outcome> <id or ->    it ended
    r <reader> <id> <at> <payload, hex>                   a reader returned a message
    x <who> <text>                                        what must not happen did
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from dlog.model import MessageId
from dlog.testing.checks.history import Append, History, Observation, Outcome, Takeover


class HistoryFile:
    """Where one process writes its lines."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def takeover(self, writer: str, returned: float, epoch: int) -> None:
        self._write(f"t {writer} {returned!r} {epoch}")

    def invoked(self, writer: str, number: int, at: float, payload: bytes) -> None:
        self._write(f"i {writer} {number} {at!r} {payload.hex()}")

    def ended(
        self, writer: str, number: int, at: float, outcome: Outcome, message_id: MessageId | None
    ) -> None:
        self._write(f"e {writer} {number} {at!r} {outcome.value} {message_id or '-'}")

    def returned(self, reader: str, message_id: MessageId, at: float, payload: bytes) -> None:
        self._write(f"r {reader} {message_id} {at!r} {payload.hex()}")

    def wrong(self, who: str, text: str) -> None:
        self._write(f"x {who} {text}")

    def _write(self, line: str) -> None:
        os.write(self._fd, f"{line}\n".encode())


def read_history(lines: Iterable[str]) -> History:
    """All files' lines together, in any order of files. A cut last line of a killed process is left out."""
    history = History()
    invoked: dict[tuple[str, int], tuple[float, bytes]] = {}
    ended: dict[tuple[str, int], tuple[float, Outcome, MessageId | None]] = {}
    takeovers: list[tuple[int, Takeover]] = []
    for line in lines:
        match line.split(" "):
            case ["t", writer, returned, epoch]:
                takeovers.append((int(epoch), Takeover(writer, float(returned))))
            case ["i", writer, number, at, payload]:
                invoked[writer, int(number)] = (float(at), bytes.fromhex(payload))
            case ["e", writer, number, at, outcome, text]:
                message_id = None if text == "-" else MessageId.parse(text)
                ended[writer, int(number)] = (float(at), Outcome(outcome), message_id)
            case ["r", reader, text, at, payload]:
                seen = Observation(MessageId.parse(text), bytes.fromhex(payload), float(at))
                history.readers.setdefault(reader, []).append(seen)
            case ["x", who, *words]:
                raise AssertionError(f"{who}: {' '.join(words)}")
            case _:
                raise AssertionError(f"{line!r} is no line of a history")
    history.takeovers = [takeover for _, takeover in sorted(takeovers, key=lambda pair: pair[0])]
    for (writer, number), (at, payload) in invoked.items():
        end = ended.get((writer, number), (float("inf"), Outcome.INDETERMINATE, None))
        history.appends.append(Append(writer, number, payload, at, end[0], end[1], end[2]))
    return history


def whole_lines(path: Path) -> list[str]:
    text = path.read_text()
    return text[: text.rfind("\n") + 1].splitlines()
