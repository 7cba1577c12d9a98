"""Transcripts of the ledger's machines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ledger.config import Visibility
from ledger.core.append import AppendCommand, AppendMachine, ReleaseThrough, Resend, WriteLac
from ledger.core.lac import LacCollector
from ledger.core.read import EntryRead
from ledger.model import BookieId, EntryId, Fragment, LedgerMetadata, QuorumSizes
from ledger.wire.status import Answer
from tests.helpers.ledger.transcripts import Step, number, run

HERE = Path(__file__).parent / "ledger"


def quorum_of(line: str) -> QuorumSizes:
    return QuorumSizes(ensemble=number(line, "E"), write=number(line, "Qw"), ack=number(line, "Qa"))


def open_subject(line: str) -> Step:
    subject = line.split()[1]
    return {"append": open_append, "read": open_read, "lac": open_lac}[subject](line)


def open_append(line: str) -> Step:
    machine = AppendMachine(quorum_of(line), Visibility.STRICT if "strict" in line else Visibility.FAST)

    def step(event: str) -> list[str]:
        bookie = number(event, "b", -1)
        entries = [int(text) for text in re.findall(r"(?<![-\w])\d+", event.split("lac")[0].split("at")[0])]
        match event.split()[0]:
            case "send":
                machine.on_sent(entries[-1], number(event, "lac"))
                return []
            case "ack":
                return shown(machine, machine.on_adds_acked(bookie, entries[0], entries[-1]))
            case "stored":
                return shown(machine, machine.on_lac_stored(bookie, number(event, "lac")))
            case "fail":
                return shown(machine, machine.on_bookie_failed(bookie))
            case "return":
                return shown(machine, machine.on_bookie_returned(bookie))
            case "freeze":
                return [f"the new fragment starts at {machine.freeze()}"]
            case "thaw":
                return shown(machine, machine.thaw())
            case "replace":
                return shown(machine, machine.on_ensemble_changed([bookie], number(event, "at")))
            case "publish":
                return shown(machine, machine.publish_lac(even_if_busy=True))
        raise AssertionError(f"unknown event {event!r}")

    return step


def shown(machine: AppendMachine, commands: list[AppendCommand]) -> list[str]:
    lines = []
    for command in commands:
        match command:
            case ReleaseThrough(entry_id):
                lines.append(f"release through {entry_id}")
            case WriteLac(positions, lac):
                lines += [f"write lac {lac} to b{position}" for position in positions]
            case Resend(position):
                lines.append(f"resend to b{position}")
    state = f"lac {machine.lac}, visible {machine.visible}"
    return [*lines, state if machine.can_confirm else f"{state}, too few members"]


def open_read(line: str) -> Step:
    quorum = quorum_of(line)
    machine = EntryRead([BookieId(f"b{index}") for index in range(quorum.write)], quorum)
    answers = {"has": Answer.YES, "denies": Answer.PROVED_NO, "fails": Answer.UNKNOWN}

    def step(event: str) -> list[str]:
        words = event.split()
        if words[0] == "ask":
            return [f"→ {machine.ask_next() or 'nobody left'}"]
        return [machine.on_answer(BookieId(words[0]), answers[words[1]]).value]

    return step


def open_lac(line: str) -> Step:
    quorum = quorum_of(line)
    ensemble = tuple(BookieId(f"b{index}") for index in range(quorum.ensemble))
    fragments = [Fragment(EntryId(0), ensemble)]
    if start := number(line, "from", 0):
        fragments.append(Fragment(EntryId(start), ensemble))
    collector = LacCollector(LedgerMetadata(quorum=quorum, fragments=tuple(fragments)))

    def step(event: str) -> list[str]:
        bookie = number(event, "b")
        if "fails" in event:
            collector.on_failure(bookie)
        elif "part" in event:
            collector.on_part(bookie, number(event, "lac"))
        else:
            collector.on_answer(bookie, number(event, "lac"))
        state = "covered" if collector.covered else "exhausted" if collector.exhausted else "not covered"
        return [f"lac {collector.lac}, {state}"]

    return step


@pytest.mark.parametrize("path", sorted(HERE.glob("*.txt")), ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    run(path, open_subject)
