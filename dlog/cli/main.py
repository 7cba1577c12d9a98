"""The `dlog` command: every command with its help, and none of the machinery that carries it out.

Invariant: importing this module stays cheap, so that `dlog --help` answers at once. Commands import what they need.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from dlog.cli import append, demo, logs, read, standalone
from ledger.command_line import Boundary

app = typer.Typer(
    cls=Boundary,
    name="dlog",
    help="An unbounded, replicated, strictly fenced log. Start with `dlog standalone` or `dlog demo`.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # plain help costs half the start-up time of the decorated one
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"dlog {version('dlog-bookkeeper')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """An unbounded, replicated, strictly fenced log. Start with `dlog standalone` or `dlog demo`."""


for group in (standalone, logs, append, read, demo):
    group.register(app)


def main() -> None:
    """Entry point of the installed command."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        from ledger.environment import occupy_standard_streams

        occupy_standard_streams()
    app(prog_name="dlog")


if __name__ == "__main__":
    main()
