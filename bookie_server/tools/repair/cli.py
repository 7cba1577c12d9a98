"""Verbs of `bookie` that find and copy what bookies lack. What they do is in work.py and daemon.py.

Invariant: importing this module is cheap, as that of cli.py.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bookie_server.tools.options import (
    DataOption,
    JournalOption,
    LedgersOption,
    LogLevelOption,
    MetadataOption,
    Output,
    OutputOption,
    storage_of,
)
from ledger.command_line import not_nan

if TYPE_CHECKING:
    from ledger.printing import Row
    from ledger.repair.config import RepairConfig

BookieArgument = Annotated[str, typer.Argument(help="Id of the bookie, as in `bookie ls`.", metavar="ID")]
GraceOption = Annotated[
    float,
    typer.Option(
        help="Seconds that the writer of an open ledger may take to replace the bookie itself; then it is fenced.",
        metavar="SECONDS",
        min=0.0,
        callback=not_nan,
    ),
]
RateOption = Annotated[
    int, typer.Option(help="Bytes to copy per second; 0: as many as possible.", metavar="BYTES", min=0)
]
SkipOpenOption = Annotated[
    bool, typer.Option("--skip-open", help="Leave open ledgers to their writers, and fence none.")
]
PlacementConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="TOML file with a table [placement], a bookie's: racks of the bookies that take the copies.",
        metavar="FILE",
    ),
]


def register(app: typer.Typer) -> None:
    verbs = (
        autorecovery,
        under_replicated,
        recover,
        decommission,
        check_copies,
        repair_settings,
        trigger_audit,
    )
    for verb in verbs:
        app.command(verb.__name__.replace("_", "-"))(verb)


def autorecovery(
    metadata: MetadataOption,
    lost_bookie_delay: Annotated[
        int | None,
        typer.Option(
            help="Seconds that a bookie may be away before its ledgers are copied, if the cluster has none set "
            "(default: 60).",
            metavar="SECONDS",
            min=0,
            max=2**31 - 1,
        ),
    ] = None,
    grace: Annotated[
        float | None,
        typer.Option(
            help="Seconds that the writer of an open ledger may take to replace a lost bookie itself; then it is "
            "fenced (default: 30).",
            metavar="SECONDS",
            min=0.0,
            callback=not_nan,
        ),
    ] = None,
    rate: Annotated[
        int | None,
        typer.Option(help="Bytes to copy per second (default: as many as possible).", metavar="BYTES", min=0),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            help="TOML file with the tables [repair] and [placement], a bookie's; options override it.",
            metavar="FILE",
        ),
    ] = None,
    log_level: LogLevelOption = None,
) -> None:
    """Run auditor and worker until SIGTERM: mark the ledgers of lost bookies and copy what is marked.

    Run it on several machines: one is the auditor, all of them copy. Prints one line when it is ready, and logs one for
    each ledger that it has worked on. The address is not read from --config.
    """
    from bookie_server.config_file import make_repair_config, read_settings
    from bookie_server.log_output import DEFAULT_LEVEL, check_level
    from bookie_server.tools.repair.daemon import run

    flags = {"lost_bookie_delay_s": lost_bookie_delay, "open_ledger_grace_s": grace, "bytes_per_s": rate}
    settings = read_settings(config) if config is not None else {}
    level = check_level(log_level if log_level is not None else settings.get("log_level", DEFAULT_LEVEL))
    raise typer.Exit(run(metadata, make_repair_config(settings, flags), level))


def under_replicated(
    metadata: MetadataOption,
    data: DataOption = None,
    journal_dir: JournalOption = None,
    ledger_dir: LedgersOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """List the ledgers that are marked because copies are missing.

    With --data also how far the worker of the bookie that runs on these directories is with those that it has.
    """
    from bookie_server.tools.repair.running import WORKER_COLUMNS, repaired_now
    from bookie_server.tools.repair.work import MARK_COLUMNS, marked_ledgers, with_progress
    from ledger.printing import print_json, print_table, with_times, with_words

    rows = marked_ledgers(metadata)
    columns: tuple[str, ...] = MARK_COLUMNS
    if data is not None or journal_dir is not None or ledger_dir:
        rows = with_progress(rows, repaired_now(storage_of(data, journal_dir, ledger_dir)))
        columns += WORKER_COLUMNS
    if output is Output.JSON:
        print_json(rows)
    else:
        print_table(columns, [list(with_times(with_words(row)).values()) for row in rows])


def recover(
    bookie: BookieArgument,
    metadata: MetadataOption,
    ledger: Annotated[
        int | None,
        typer.Option(help="Copy what it had of this ledger only.", metavar="ID", min=0, max=2**63 - 1),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be copied, and change nothing.")
    ] = False,
    skip_open: SkipOpenOption = False,
    grace: GraceOption = 30.0,
    rate: RateOption = 0,
    config: PlacementConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Copy what a stopped bookie had to other bookies, which take its place.

    A read-only bookie may run: its own copies are read, too. Fails if ledgers still depend on it at the end; then the
    command may be repeated.
    """
    from bookie_server.tools.repair.display import Display
    from bookie_server.tools.repair.work import recovered

    settings = _repair_config(config, grace, rate)
    facts = recovered(
        metadata, bookie, settings, only=ledger, dry_run=dry_run, skip_open=skip_open, display=Display()
    )
    _print(facts, output)


def decommission(
    bookie: BookieArgument,
    metadata: MetadataOption,
    grace: GraceOption = 30.0,
    rate: RateOption = 0,
    config: PlacementConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Remove a stopped bookie from the cluster for good.

    Copies what it had to other bookies, as `recover`, and removes its cookie once nothing depends on it. Nothing is
    changed while a ledger needs more bookies than are left without it. Fails also if ledgers still depend on it at the
    end; then it may be repeated.
    """
    from bookie_server.tools.repair.display import Display
    from bookie_server.tools.repair.work import decommissioned

    settings = _repair_config(config, grace, rate)
    _print(decommissioned(metadata, bookie, settings, display=Display()), output)


def check_copies(
    metadata: MetadataOption,
    full: Annotated[
        bool, typer.Option("--full", help="Read every copy; else the first and the last of each fragment.")
    ] = False,
    mark: Annotated[
        bool, typer.Option("--mark", help="Mark the ledgers that lack copies, so that workers repair them.")
    ] = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Read copies of every ledger, and list the ledgers that lack some.

    Fails if there are any. Without --mark nothing is changed.
    """
    from bookie_server.tools.repair.display import Display
    from bookie_server.tools.repair.work import FINDING_COLUMNS, checked, require_none
    from ledger.printing import counted, print_json, print_table, with_words

    count, rows = checked(metadata, full=full, mark=mark, display=Display())
    if output is Output.JSON:
        print_json(rows)
    elif rows:
        print_table(FINDING_COLUMNS, [list(with_words(row).values()) for row in rows])
    else:
        found = "no copy is missing" if full else "the ends of each fragment have all copies"
        print(f"{counted(count, 'ledger')} checked: {found}")
    require_none(rows, marked=mark)


def repair_settings(
    metadata: MetadataOption,
    enable: Annotated[
        bool | None, typer.Option("--enable/--disable", help="Switch repair on or off in the whole cluster.")
    ] = None,
    lost_bookie_delay: Annotated[
        int | None,
        typer.Option(
            help="Seconds that a bookie may be away before its ledgers are copied. The value that it has: audit now.",
            metavar="SECONDS",
            min=0,
            max=2**31 - 1,
        ),
    ] = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show the cluster's repair settings and its auditor, after changing what is given."""
    from bookie_server.tools.repair.work import settings

    _print(settings(metadata, enable=enable, lost_bookie_delay_s=lost_bookie_delay), output)


def trigger_audit(metadata: MetadataOption) -> None:
    """Have the auditor look for lost bookies now, without waiting for the lost-bookie delay."""
    from bookie_server.tools.repair.work import audit_triggered

    print(audit_triggered(metadata))


def _repair_config(file: Path | None, grace_s: float, bytes_per_s: int) -> RepairConfig:
    from bookie_server.config_file import make_placement_config, read_settings
    from ledger.repair.config import RepairConfig

    settings = read_settings(file) if file is not None else {}
    return RepairConfig(
        open_ledger_grace_s=grace_s,
        bytes_per_s=bytes_per_s,
        placement=make_placement_config(settings, {}),
    )


def say(line: str) -> None:
    """Print a line of progress to stderr. One that cannot be written does not end the work."""
    with suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def _print(facts: Row, output: Output) -> None:
    from ledger.printing import print_facts, print_json, with_times

    if output is Output.JSON:
        print_json(facts)
    else:
        print_facts(with_times(facts))
