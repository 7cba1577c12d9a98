"""The `dlog` command and its subcommands.

Invariant: importing this module is cheap, so that `dlog --help` is fast. Subcommands import the client and
everything else inside their functions.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from dlog.cli import append, demo, inspect, logs, read, standalone
from dlog.cli.export import verb as export
from dlog.cli.live import verbs as live
from dlog.cli.upkeep import cursors, properties, retention
from ledger.command_line import HELP_COLUMNS_MAX, Boundary, version_option

app = typer.Typer(
    cls=Boundary,
    name="dlog",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # rich help doubles the start-up time
    pretty_exceptions_enable=False,
    context_settings={"max_content_width": HELP_COLUMNS_MAX},
)


@app.callback()
def options(version: Annotated[bool, version_option("dlog")] = False) -> None:
    """Append to, read and manage replicated logs. To try it: `dlog demo`; for a local cluster: `dlog standalone`."""


for group in (standalone, logs, inspect, live, append, read, export, cursors, retention, properties, demo):
    group.register(app)


def main() -> None:
    """Entry point of the installed command."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        from ledger.environment import occupy_standard_streams

        occupy_standard_streams()
    app(prog_name="dlog")


if __name__ == "__main__":
    main()
