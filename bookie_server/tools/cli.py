"""The `bookie` command: run a bookie, inspect one, initialize a cluster.

Invariant: importing this module is cheap, so that `bookie --help` is fast; subcommands import inside their functions.
Results go to stdout (text, or JSON with `-o json`), errors to stderr in one sentence. Exit codes:
ledger/command_line.py.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bookie_server.tools.cluster import cli as cluster_cli
from bookie_server.tools.options import (
    DataOption,
    JournalOption,
    LedgersOption,
    LogLevelOption,
    LostOption,
    MetadataOption,
    Output,
    OutputOption,
    require_yes,
    storage_of,
)
from bookie_server.tools.repair import cli as repair_cli
from bookie_server.tools.repair import placement_cli
from ledger.command_line import HELP_COLUMNS_MAX, Boundary, not_nan, version_option
from ledger.errors import ConfigurationError

if TYPE_CHECKING:
    from ledger.printing import Row

app = typer.Typer(
    cls=Boundary,
    name="bookie",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"max_content_width": HELP_COLUMNS_MAX},
    rich_markup_mode=None,
)


_ID_MAX = 2**63 - 1
"""Of a ledger or an entry."""

MaybeMetadataOption = Annotated[
    str | None,
    typer.Option(
        "--metadata",
        help="Address of the metadata store (default: from --config, else DLOG_METADATA).",
        metavar="URI",
    ),
]
PortRangeOption = Annotated[
    str | None,
    typer.Option(
        help="Ports that --port 0 may pick (default: from BOOKIE_PORT_RANGE, else any below 32768).",
        metavar="FIRST-LAST",
    ),
]
HttpPortOption = Annotated[
    int | None,
    typer.Option(help="Port for health, metrics and state over HTTP (default: none); 0 picks a free one."),
]
HttpHostOption = Annotated[
    str | None, typer.Option(help="Address to listen on for health, metrics and state (default: 127.0.0.1).")
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", help="TOML file with these settings and others; options override it.", metavar="FILE"
    ),
]


@app.callback()
def options(version: Annotated[bool, version_option("bookie")] = False) -> None:
    """Storage server of dlog. Stores ledger entries durably and speaks Apache BookKeeper's protocol."""


@app.command()
def start(
    metadata: MaybeMetadataOption = None,
    data: DataOption = None,
    journal_dir: JournalOption = None,
    ledger_dir: LedgersOption = None,
    lost_ledger_dir: LostOption = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on (default: 127.0.0.1).")] = None,
    port: Annotated[
        int | None,
        typer.Option(
            help="Port to listen on (default: 3181); 0 picks a free one and keeps it for later starts."
        ),
    ] = None,
    port_range: PortRangeOption = None,
    advertised: Annotated[
        str | None, typer.Option(help="Host name that clients connect to, if not --host.")
    ] = None,
    bookie_id: Annotated[
        str | None, typer.Option(help="Id of the bookie in the cluster (default: HOST:PORT).")
    ] = None,
    network_location: Annotated[
        str | None,
        typer.Option(help="Where the bookie is: /rack or /zone/rack.", metavar="LOCATION"),
    ] = None,
    autorecovery: Annotated[
        bool | None,
        typer.Option("--autorecovery", help="Also run auditor and worker, as `bookie autorecovery`."),
    ] = None,
    http_port: HttpPortOption = None,
    http_host: HttpHostOption = None,
    log_level: LogLevelOption = None,
    config: ConfigOption = None,
) -> None:
    """Run a bookie until SIGTERM. Prints one line when it is ready."""
    from bookie_server.config_file import make_config, read_settings
    from bookie_server.net.port import VARIABLE
    from bookie_server.process import run

    flags = {
        "metadata": metadata,
        "data": data,
        "journal_dir": journal_dir,
        "ledger_dir": ledger_dir,
        "lost_ledger_dir": lost_ledger_dir,
        "host": host,
        "port": port,
        "port_range": port_range,
        "advertised": advertised,
        "bookie_id": bookie_id,
        "network_location": network_location,
        "autorecovery": autorecovery,
        "http_port": http_port,
        "http_host": http_host,
        "log_level": log_level,
    }
    # A file that the command line names goes before the environment.
    variables = {"metadata": "DLOG_METADATA", "port_range": VARIABLE}
    from_environment = {name: value for name, each in variables.items() if (value := os.environ.get(each))}
    settings = {**from_environment, **(read_settings(config) if config is not None else {})}
    raise typer.Exit(run(make_config(settings, flags)))


@app.command("init-cluster")
def init_cluster(metadata: MetadataOption) -> None:
    """Initialize a metadata store for a new cluster."""
    from bookie_server.tools.admin import init_cluster as init

    print(init(metadata))


@app.command("ls")
def list_bookies(metadata: MetadataOption, output: OutputOption = Output.TEXT) -> None:
    """List the registered bookies of a cluster."""
    from bookie_server.tools.admin import BOOKIE_COLUMNS, registered_bookies

    _print_rows(BOOKIE_COLUMNS, registered_bookies(metadata), output)


@app.command()
def info(
    address: Annotated[
        str | None, typer.Argument(help="Address of a running bookie.", metavar="HOST:PORT")
    ] = None,
    data: DataOption = None,
    journal_dir: JournalOption = None,
    ledger_dir: LedgersOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show disk space and identity of a bookie, whether it is in limbo, and what its repair worker copies.

    Asks the running bookie at HOST:PORT, which does not report its worker, or the one that runs on the directories
    (--data). Reads the directories of a stopped one.
    """
    if address is not None and (data is not None or journal_dir is not None or ledger_dir):
        raise ConfigurationError("give either HOST:PORT or the directories of a bookie (--data), not both")
    if address is None and data is None and journal_dir is None and not ledger_dir:
        raise ConfigurationError(
            "no bookie is given: give its HOST:PORT, as `bookie ls` prints it, or its directories with --data DIR"
        )
    if address is not None and Path(address).is_dir():
        raise ConfigurationError(f"{address} is a directory: give it as --data {address}")
    if address is not None:
        from bookie_server.tools.admin import bookie_info

        _print_facts(bookie_info(address), output)
    else:
        from bookie_server.tools.inspection import directory_facts, require_whole
        from bookie_server.tools.repair.running import print_running, running_facts
        from ledger.printing import print_json

        storage = storage_of(data, journal_dir, ledger_dir)
        running = running_facts(storage)
        if running is not None:
            if output is Output.JSON:
                print_json(running)
            else:
                print_running(running)
            return
        facts, damage = directory_facts(storage)
        _print_facts(facts, output)
        require_whole(damage)


@app.command("read-journal")
def read_journal(
    data: DataOption = None,
    journal_dir: JournalOption = None,
    ledger_dir: LedgersOption = None,
    ledger: Annotated[
        int | None,
        typer.Option(help="Print records about this ledger only.", metavar="LEDGER", min=0, max=_ID_MAX),
    ] = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Print every record of a stopped bookie's journal, and parts that are damaged."""
    from bookie_server.tools.inspection import journal_rows
    from ledger.printing import print_stream

    rows = journal_rows(storage_of(data, journal_dir, ledger_dir), ledger)
    print_stream(rows, as_json=output is Output.JSON)


@app.command("read-log")
def read_log(
    log: Annotated[
        str | None,
        typer.Argument(
            help="Name of an entry log or a journal file, or hexadecimal number of an entry log (default: all).",
            metavar="LOG",
        ),
    ] = None,
    data: DataOption = None,
    journal_dir: JournalOption = None,
    ledger_dir: LedgersOption = None,
    ledger: Annotated[
        int | None,
        typer.Option(help="Print entries of this ledger only.", metavar="LEDGER", min=0, max=_ID_MAX),
    ] = None,
    entry: Annotated[
        int | None, typer.Option(help="Print entries with this id only.", metavar="ENTRY", min=0, max=_ID_MAX)
    ] = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Print what entry logs and journal files of a stopped bookie hold, found without the index.

    Of journal files what is before the log mark. Also entries of deleted ledgers, and parts that are damaged.
    """
    from bookie_server.tools.entry_log_rows import entry_log_rows
    from ledger.printing import print_stream

    rows = entry_log_rows(storage_of(data, journal_dir, ledger_dir), log, ledger, entry)
    print_stream(rows, as_json=output is Output.JSON)


@app.command("list-ledgers")
def list_ledgers(
    metadata: MetadataOption,
    meta: Annotated[bool, typer.Option("--meta", help="Print also the metadata of each.")] = False,
    only: Annotated[
        str | None,
        typer.Option("--bookie", help="List the ledgers that name this bookie only.", metavar="ID"),
    ] = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """List the ledgers of a cluster."""
    from bookie_server.tools.ledger_list import ledger_list, text_row
    from ledger.printing import print_stream

    as_json = output is Output.JSON
    with closing(ledger_list(metadata, with_metadata=meta, bookie=only)) as rows:
        print_stream(rows if as_json else map(text_row, rows), as_json=as_json)


@app.command("read-ledger")
def read_ledger(
    ledger: Annotated[int, typer.Argument(help="Ledger id.", metavar="LEDGER", min=0, max=_ID_MAX)],
    data: DataOption = None,
    journal_dir: JournalOption = None,
    ledger_dir: LedgersOption = None,
    metadata: Annotated[
        str,
        typer.Option(
            "--metadata",
            help="Address of the metadata store: read from the running bookies of the cluster.",
            metavar="URI",
            envvar="DLOG_METADATA",
        ),
    ] = "",
    only: Annotated[
        str | None,
        typer.Option("--bookie", help="With --metadata: read from this bookie only.", metavar="ID"),
    ] = None,
    first: Annotated[
        int, typer.Option(help="First entry to print.", metavar="ENTRY", min=0, max=_ID_MAX)
    ] = 0,
    last: Annotated[
        int, typer.Option(help="Last entry to print.", metavar="ENTRY", min=0, max=_ID_MAX)
    ] = _ID_MAX,
    output: OutputOption = Output.TEXT,
) -> None:
    """Print the entries of a ledger.

    Reads from the running bookies of a cluster (--metadata), dlog's or Apache's, or from the directories of a stopped
    bookie (--data).
    """
    from ledger.printing import print_stream

    if first > last:
        raise ConfigurationError(f"--first {first} is after --last {last}: no entry is between them")
    offline = data is not None or journal_dir is not None or bool(ledger_dir)
    if offline and only is not None:
        raise ConfigurationError(
            f"--bookie {only} does not go with directories, which are those of one bookie: give --metadata alone"
        )
    if metadata and not offline:
        from bookie_server.tools.admin import live_ledger_rows

        with closing(live_ledger_rows(metadata, ledger, only, first, last)) as rows:
            print_stream(rows, as_json=output is Output.JSON)
    else:
        from bookie_server.tools.inspection import ledger_rows

        stored = ledger_rows(storage_of(data, journal_dir, ledger_dir), ledger, first, last)
        print_stream(stored, as_json=output is Output.JSON)


@app.command("rebuild-index")
def rebuild_index(
    data: DataOption = None,
    journal_dir: JournalOption = None,
    ledger_dir: LedgersOption = None,
    lost_ledger_dir: LostOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Rebuild the index of a bookie from its entry logs.

    A running bookie does it while it serves, at the rate of its compactions, and only if nothing is damaged.

    The old index is replaced only when the new one is verified. Fails if anything was lost: the bookie is in limbo.
    """
    from bookie_server.tools.rebuilding import rebuilt_facts, require_nothing_lost

    storage = storage_of(data, journal_dir, ledger_dir, lost=lost_ledger_dir)
    facts = rebuilt_facts(storage, repair_cli.say)
    _print_facts(facts, output)
    require_nothing_lost(facts)


@app.command()
def scrub(
    data: DataOption = None,
    journal_dir: JournalOption = None,
    ledger_dir: LedgersOption = None,
    status: Annotated[
        bool,
        typer.Option(
            "--status", help="Show what the bookie's scrubber has done, instead; the bookie may be running."
        ),
    ] = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Check the blocks and the index of a bookie against each other.

    Fails if a block is damaged or not in the index. A running bookie does it with its scrubber, at the rate of its
    settings.
    """
    from bookie_server.tools.scrubbing import (
        SCRUB_COLUMNS,
        require_intact,
        scrub_status,
        scrubbed_facts,
    )

    storage = storage_of(data, journal_dir, ledger_dir)
    if status:
        _print_rows(SCRUB_COLUMNS, scrub_status(storage), output)
        return
    facts = scrubbed_facts(storage, repair_cli.say)
    _print_facts(facts, output)
    require_intact(facts)


@app.command()
def space(
    data: DataOption = None,
    journal_dir: JournalOption = None,
    ledger_dir: LedgersOption = None,
    ledgers: Annotated[bool, typer.Option("--ledgers", help="One row for each ledger.")] = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show live and dead bytes of a bookie's entry logs and journal files."""
    from bookie_server.tools.space import FILE_COLUMNS, LEDGER_COLUMNS, file_rows, ledger_rows, text_row

    storage = storage_of(data, journal_dir, ledger_dir)
    if ledgers:
        _print_rows(LEDGER_COLUMNS, ledger_rows(storage), output)
    else:
        _print_rows(FILE_COLUMNS, file_rows(storage), output, text_row)


@app.command()
def compact(
    data: DataOption = None,
    journal_dir: JournalOption = None,
    ledger_dir: LedgersOption = None,
    threshold: Annotated[
        float,
        typer.Option(
            help="Compact files of which a smaller part than this is live.",
            metavar="FRACTION",
            min=0.0,
            max=1.0,
            callback=not_nan,
        ),
    ] = 0.8,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list the files that would be compacted.")
    ] = False,
    config: ConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Copy what is live in files of a bookie that are mostly garbage, and remove these files.

    A running bookie goes on serving, and writes at the rate of its settings. For a stopped one give its --config.
    """
    from bookie_server.tools import space

    storage = storage_of(data, journal_dir, ledger_dir, config)
    if dry_run:
        _print_rows(space.FILE_COLUMNS, space.compactable_rows(storage, threshold), output, space.text_row)
        return
    facts, refusal = space.compact(storage, threshold)
    _print_facts(facts, output)
    space.require_all(refusal)


@app.command("format")
def format_bookie(
    metadata: MetadataOption,
    data: DataOption = None,
    journal_dir: JournalOption = None,
    ledger_dir: LedgersOption = None,
    lost_ledger_dir: LostOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Format even if ledgers still have entries on this bookie, or its cluster cannot be asked: those "
            "copies are lost.",
        ),
    ] = False,
) -> None:
    """Delete all data and the cookie of a stopped bookie."""
    from bookie_server.tools.admin import format_directories, require_unused_directories

    storage = storage_of(data, journal_dir, ledger_dir, lost=lost_ledger_dir)
    where = " and ".join(map(str, (storage.journal_directory, *storage.ledger_directories)))
    if not yes:
        require_unused_directories(storage)
        require_yes(f"Delete what a bookie stores in {where}?")
    print(format_directories(metadata, storage, force=force))


cluster_cli.register(app)
repair_cli.register(app)
placement_cli.register(app)


def _print_rows(
    columns: Sequence[str], rows: list[Row], output: Output, text_row: Callable[[Row], Row] = lambda row: row
) -> None:
    """`text_row`: a row as people read it."""
    from ledger.printing import print_json, print_table

    if output is Output.JSON:
        print_json(rows)
    else:
        print_table(columns, [list(text_row(row).values()) for row in rows])


def _print_facts(facts: Row, output: Output) -> None:
    from ledger.printing import print_facts, print_json

    if output is Output.JSON:
        print_json(facts)
    else:
        # A port is not a quantity, so it gets no thousands separator.
        print_facts(
            {name: str(value) if name == "kept_port" and value else value for name, value in facts.items()}
        )


def main() -> None:
    """Entry point of the `bookie` command."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        from ledger.environment import occupy_standard_streams

        occupy_standard_streams()
    app(prog_name="bookie")
