"""`dlog retention`: show, set and try what of a log is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dlog.cli.options import LogName, Metadata, Namespace, Table, TableOutput, administer
from dlog.cli.upkeep.quantities import bytes_of, seconds_of
from ledger.errors import ConfigurationError
from ledger.printing import print_facts, print_json

if TYPE_CHECKING:
    from dlog.client import LogClient
    from dlog.log_retention import RetentionPlan
    from dlog.model import Retention


_OPTIONS = {"max_age_s": "--max-age", "max_bytes": "--max-bytes", "max_messages": "--max-messages"}


def register(app: typer.Typer) -> None:
    app.command()(retention)


def retention(
    log: LogName,
    max_age: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="A ledger may go once its last message is older: 7d, 12h."),
    ] = None,
    max_bytes: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="A ledger may go while those after it hold as much: 10GB, 512MiB."),
    ] = None,
    max_messages: Annotated[int | None, typer.Option(metavar="COUNT", help="The same in messages.")] = None,
    keep_unread: Annotated[
        bool, typer.Option("--keep-unread", help="A ledger may go once every cursor is beyond it.")
    ] = False,
    forever: Annotated[bool, typer.Option("--forever", help="Keep everything.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be trimmed now, and change nothing.")
    ] = False,
    metadata: Metadata = "",
    namespace: Namespace = "default",
    output: Table = TableOutput.TEXT,
) -> None:
    """Show what of a log is kept, or replace it.

    A ledger is trimmed once all given rules allow it; the newest one always stays. `dlog gc` trims.
    """
    wanted = _wanted(
        max_age_s=None if max_age is None else seconds_of(max_age, "--max-age"),
        max_bytes=None if max_bytes is None else bytes_of(max_bytes, "--max-bytes"),
        max_messages=max_messages,
        keep_unread=keep_unread,
    )
    if forever and not wanted.keeps_everything:
        raise ConfigurationError("--forever keeps everything: leave the other rules out")
    given = wanted if forever or not wanted.keeps_everything else None
    kept, plan = administer(metadata, namespace, lambda client: _retention(client, log, given, dry_run))
    if output is TableOutput.JSON:
        print_json(_document(kept, plan))
    else:
        print_facts(_facts(kept, plan))


def _wanted(
    *, max_age_s: float | None, max_bytes: int | None, max_messages: int | None, keep_unread: bool
) -> Retention:
    """ConfigurationError: a value is not valid; it is called as its option is."""
    from dlog.model import Retention

    try:
        return Retention(
            max_age_s=max_age_s, max_bytes=max_bytes, max_messages=max_messages, keep_unread=keep_unread
        )
    except ConfigurationError as error:
        name, _, rest = str(error).partition(" ")
        raise ConfigurationError(f"{_OPTIONS.get(name, name)} {rest}") from error


async def _retention(
    client: LogClient, log: str, given: Retention | None, dry_run: bool
) -> tuple[Retention, RetentionPlan]:
    """What is kept, and what that trims now. Nothing is set if that cannot be determined."""
    kept = await client.retention(log) if given is None else given
    plan = await client.plan_retention(log, kept)
    if given is not None and not dry_run:
        await client.set_retention(log, given)
    return kept, plan


def _facts(kept: Retention, plan: RetentionPlan) -> dict[str, object]:
    if kept.keeps_everything:
        return {"keeps": "everything"}
    facts: dict[str, object] = {}
    if kept.max_age_s is not None:
        facts["max age"] = f"{kept.max_age_s:,.6f}".rstrip("0").rstrip(".") + " s"
    if kept.max_bytes is not None:
        facts["max bytes"] = kept.max_bytes
    if kept.max_messages is not None:
        facts["max messages"] = kept.max_messages
    if kept.keep_unread:
        facts["keeps unread"] = True
    kept_by = {"kept by": plan.kept_by.removesuffix("_s").replace("_", " ")} if plan.kept_by else {}
    if plan.before is None:
        return facts | {"trims now": "nothing"} | kept_by
    some = ", without ledgers that were not counted" if plan.uncounted else ""
    return facts | {
        "trims now": f"messages before {plan.before}",
        "ledgers": plan.ledgers,
        "messages": f"{plan.messages:,}{some}",
        "bytes": plan.bytes,
        **kept_by,
    }


def _document(kept: Retention, plan: RetentionPlan) -> dict[str, object]:
    return {
        "max_age_s": kept.max_age_s,
        "max_bytes": kept.max_bytes,
        "max_messages": kept.max_messages,
        "keep_unread": kept.keep_unread,
        "trims_now": {
            "before": None if plan.before is None else str(plan.before),
            "ledgers": plan.ledgers,
            "messages": plan.messages,
            "messages_complete": not plan.uncounted,
            "bytes": plan.bytes,
            "kept_by": plan.kept_by or None,
        },
    }
