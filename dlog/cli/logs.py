"""Commands on whole logs: create, ls, info, ledgers, rotate, seal, shrink, delete, gc."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dlog.cli.live.verbs import watch_info
from dlog.cli.options import LogName, Metadata, Namespace, Table, TableOutput, administer
from ledger.command_line import FAILED, DoneInPart, confirmed, not_nan, say
from ledger.printing import print_facts, print_json, print_table, require_stdout

if TYPE_CHECKING:
    from dlog.client import LogClient
    from dlog.model import LogMetadata, MessageId


def register(app: typer.Typer) -> None:
    for command in (create, ls, info, ledgers, rotate, seal, shrink, delete, gc):
        app.command()(command)


def create(log: LogName, metadata: Metadata = "", namespace: Namespace = "default") -> None:
    """Create an empty log."""
    administer(metadata, namespace, lambda client: client.create(log))
    print(f"created {log}")


def ls(metadata: Metadata = "", namespace: Namespace = "default", output: Table = TableOutput.TEXT) -> None:
    """List the logs of a namespace, one name per line."""
    require_stdout()
    names = administer(metadata, namespace, lambda client: client.list())
    if output is TableOutput.JSON:
        print_json(names)
        return
    for name in names:
        print(name)


def info(
    log: LogName,
    watch: Annotated[bool, typer.Option("--watch", help="Show changes until Ctrl-C.")] = False,
    metadata: Metadata = "",
    namespace: Namespace = "default",
    output: Table = TableOutput.TEXT,
) -> None:
    """Show state, owner and size of a log."""
    from dlog.cli.describe.overview import document_of, facts_of

    if watch:
        watch_info(log, metadata, namespace, output)
        return
    found = administer(metadata, namespace, lambda client: client.overview(log))
    if output is TableOutput.JSON:
        print_json(document_of(found))
    else:
        print_facts(facts_of(found))


def ledgers(
    log: LogName, metadata: Metadata = "", namespace: Namespace = "default", output: Table = TableOutput.TEXT
) -> None:
    """List the ledgers of a log, oldest first.

    JSON output also has the append times of the first and the last message of each.
    """
    from dlog.cli.describe.ledgers import SHORT_LEDGER_COLUMNS, ledger_row, short_ledger_row

    found = administer(metadata, namespace, lambda client: client.list_ledgers(log))
    if output is TableOutput.JSON:
        print_json([ledger_row(listed) for listed in found])
    else:
        print_table(SHORT_LEDGER_COLUMNS, [short_ledger_row(listed) for listed in found])


def rotate(
    log: LogName,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Fence a writer that does not answer or cannot rotate; it may open the log again."
        ),
    ] = False,
    metadata: Metadata = "",
    namespace: Namespace = "default",
) -> None:
    """Seal the newest ledger of a log.

    Asks the log's writer, which goes on in a new ledger. An empty ledger is kept, and so is a log that is not written.
    """
    from dlog.cli.describe.ledgers import newest_ledger

    is_written, record = administer(metadata, namespace, lambda client: _rotate(client, log, force))
    if is_written:
        print(f"log {log} is at epoch {record.epoch}, {newest_ledger(record)}")
    else:
        print(f"log {log} is not being written, so nothing was rotated: {newest_ledger(record)}")


async def _rotate(client: LogClient, log: str, force: bool) -> tuple[bool, LogMetadata]:
    """Whether there was something to rotate, and the record."""
    from dlog.write.current_owner import is_released

    before = (await client.describe(log)).record
    return not is_released(before), (await client.rotate(log, force=force)).record


def seal(log: LogName, metadata: Metadata = "", namespace: Namespace = "default") -> None:
    """Seal a log permanently: its writer is fenced, and it takes no more appends.

    Everything in it can still be read. A log that is sealed already is left as it is.
    """
    from dlog.core.metadata_changes import shrink_limit

    was_sealed, record = administer(metadata, namespace, lambda client: _seal(client, log))
    end = shrink_limit(record)
    if was_sealed:
        print(f"{log} was sealed already, and ends before {end}")
    else:
        print(
            f"sealed {log}: its writer is fenced, and it ends before {end}; it can be read, and takes no more appends"
        )


async def _seal(client: LogClient, log: str) -> tuple[bool, LogMetadata]:
    """Whether it was sealed before, and the record."""
    from dlog.model import LogState

    before = (await client.describe(log)).record
    return before.state is LogState.SEALED, await client.seal(log)


def shrink(
    log: LogName,
    before: Annotated[
        str, typer.Argument(metavar="ID", help="First message id to keep, for example 17:420:3.")
    ],
    metadata: Metadata = "",
    namespace: Namespace = "default",
) -> None:
    """Delete the messages before an id.

    Readers stop seeing them immediately. A ledger is deleted when the id is in a later one.
    """
    from dlog.model import MessageId

    bound = MessageId.parse(before)
    first = administer(metadata, namespace, lambda client: _shrink(client, log, bound))
    print(f"log {log} begins at {first}")


async def _shrink(client: LogClient, log: str, bound: MessageId) -> MessageId:
    """The first id afterwards, as `dlog info` prints it."""
    from dlog.errors import HistoryPageError

    trimmed = await client.shrink(log, bound)
    await client.collect(log)
    info = await client.describe(log)
    try:
        return (await client.logs.ledger_list(info.ref, info.record).window(0)).earliest
    except HistoryPageError:
        return trimmed.trim_before  # that of the first ledger is unknown


def delete(
    log: LogName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    given_up: Annotated[
        list[int] | None,
        typer.Option(
            metavar="LEDGER",
            min=0,
            help="Delete the log although this ledger of it is lost, or its bookies are, so that its writer cannot be "
            "fenced: end that first; may be repeated.",
        ),
    ] = None,
    metadata: Metadata = "",
    namespace: Namespace = "default",
) -> None:
    """Delete a log and everything in it."""
    from ledger.model import LedgerId

    if not yes:
        # One that is being deleted is found, too.
        administer(metadata, namespace, lambda client: client.logs.find(client.name(log)))
        if not confirmed(f"Delete log {log} and all its messages permanently?"):
            say("dlog", "nothing was deleted")
            raise typer.Exit(FAILED)
    ids = [LedgerId(one) for one in given_up or []]
    if administer(metadata, namespace, lambda client: client.delete(log, given_up=ids)):
        print(f"deleted {log}")
    else:
        print(
            f"{log} is being deleted and accepts no more appends; its last ledgers remain, since a paused writer could "
            f"still write to them: run `dlog delete {log}` again when all their bookies are registered, or when the "
            "log's grace period has ended"
        )


def gc(
    age: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=0,
            callback=not_nan,
            help="Keep orphaned ledgers younger than this: a writer may be about to list them.",
        ),
    ] = 600.0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what retention would trim now, and change nothing.")
    ] = False,
    metadata: Metadata = "",
    namespace: Namespace = "default",
) -> None:
    """Trim logs as their retention says, and delete ledgers that no log needs.

    These are ledgers that crashed writers created and never listed, and ledgers of this namespace that wait for
    deletion and whose grace period has ended. It also removes metadata that is left of deleted logs. Safe to run at
    any time, also while logs are written.
    """
    from dlog.cli.upkeep.garbage import Collection

    found = Collection(age, dry_run=dry_run)
    administer(metadata, namespace, found.run)
    for line in found.lines():
        print(line)
    if found.damaged:
        # Not as wrong usage, whose exit code promises that nothing was done: the other logs were collected.
        *others, last = dict.fromkeys(map(str, found.damaged))  # both steps may fail for one reason
        for sentence in others:
            say("dlog", sentence)
        raise DoneInPart(last)
