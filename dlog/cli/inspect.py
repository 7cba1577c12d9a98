"""Commands that examine a log without changing it: history, explain, verify."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from dlog.cli.options import LogName, Metadata, Namespace, Table, TableOutput, administer
from ledger.errors import CorruptionError
from ledger.printing import print_facts, print_json, print_table, require_stdout

if TYPE_CHECKING:
    from dlog.client import LogClient
    from dlog.inspection.verify import UncheckedLedger
    from ledger.inspection.copies import LedgerCopies


def register(app: typer.Typer) -> None:
    for command in (history, explain, verify):
        app.command()(command)


def history(
    log: LogName, metadata: Metadata = "", namespace: Namespace = "default", output: Table = TableOutput.TEXT
) -> None:
    """List takeovers and rotations of a log, oldest first.

    The pause is the time between the last append before and the first one after, by the writers' clocks. A takeover
    whose ledger stayed empty is shown by its epoch only.
    """
    from dlog.cli.describe.history import HISTORY_COLUMNS, history_document, history_rows

    events = administer(metadata, namespace, lambda client: client.history(log))
    if output is TableOutput.JSON:
        print_json([history_document(event) for event in events])
    else:
        print_table(HISTORY_COLUMNS, [row for event in events for row in history_rows(event)])


def explain(
    log: LogName,
    message: Annotated[str, typer.Argument(metavar="ID", help="A message id, for example 17:420:3.")],
    metadata: Metadata = "",
    namespace: Namespace = "default",
    output: Table = TableOutput.TEXT,
) -> None:
    """Show the outcome of a message, its ledger and entry, and the copies on each bookie."""
    from dlog.cli.describe.explanation import explanation_document, explanation_facts
    from dlog.model import MessageId

    message_id = MessageId.parse(message)
    found = administer(metadata, namespace, lambda client: client.explain(log, message_id))
    if output is TableOutput.JSON:
        print_json(explanation_document(found))
    else:
        print_facts(explanation_facts(found))


def verify(
    log: LogName,
    full: Annotated[
        bool, typer.Option("--full", help="Fail also if an entry has fewer copies than its write quorum.")
    ] = False,
    metadata: Metadata = "",
    namespace: Namespace = "default",
    output: Table = TableOutput.TEXT,
) -> None:
    """Read every copy of every entry and verify it.

    Fails if a copy is damaged, if an entry is not proved to have the copies of its ack quorum, or if a ledger is
    missing or cannot be checked; the other ledgers are checked all the same. After a bookie has failed, older entries
    may have fewer copies than their write quorum; see --full.
    """
    from dlog.cli.describe.copies import copies_document, copies_summary, unchecked_document
    from dlog.inspection.verify import UncheckedLedger
    from ledger.inspection.copies import Verdict, sentences

    require_stdout()
    found = administer(metadata, namespace, lambda client: _verify(client, log))
    unchecked = [each for each in found if isinstance(each, UncheckedLedger)]
    checked = [each for each in found if not isinstance(each, UncheckedLedger)]
    if output is TableOutput.JSON:
        print_json(
            [
                unchecked_document(each) if isinstance(each, UncheckedLedger) else copies_document(each)
                for each in found
            ]
        )
    else:
        for each in found:
            for sentence in [each.error] if isinstance(each, UncheckedLedger) else sentences(each):
                print(sentence)
        print(copies_summary(log, checked, unchecked))
    wrong = [each.ledger_id for each in checked if each.damaged or not each.proved]
    if wrong or unchecked:
        raise CorruptionError(f"log {log} {_what_is_wrong(wrong, [one.ledger_id for one in unchecked])}")
    fewer = [each.ledger_id for each in checked if each.verdicts[Verdict.ON_ACK_QUORUM]]
    if full and fewer:
        raise CorruptionError(
            f"log {log} has entries with fewer copies than their write quorum in ledger {_joined(fewer)}"
        )


def _what_is_wrong(wrong: Sequence[int], unchecked: Sequence[int]) -> str:
    parts = []
    if wrong:
        parts.append(f"has lost, damaged or unproved copies in ledger {_joined(wrong)}")
    if unchecked:
        parts.append(f"lists ledger {_joined(unchecked)}, which cannot be checked")
    return ", and ".join(parts)


async def _verify(client: LogClient, log: str) -> Sequence[LedgerCopies | UncheckedLedger]:
    from dlog.inspection.verify import sealed_entries

    with _progress(sealed_entries(await client.list_ledgers(log))) as advance:
        return await client.verify(log, on_progress=advance)


def _joined(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids))


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar by entries if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("entries"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("verify", total=total)
        yield lambda entries: bar.advance(task, entries)
