"""`dlog demo`: append, kill, take over, verify, query; on a temporary cluster or an existing one."""

from __future__ import annotations

from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    spark: Annotated[
        bool, typer.Option("--spark/--no-spark", help="Query the log with Spark at the end.")
    ] = True,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the log and the directory.")] = False,
    metadata: Annotated[
        str | None,
        typer.Option(
            "--metadata",
            metavar="URI",
            help="Run on the cluster at this address; if it has no bookies, three are started.",
        ),
    ] = None,
) -> None:
    """Show durability and fencing on real data.

    Appends a month of flights, kills a bookie with SIGKILL, takes the log over from its writer, and verifies that
    no acknowledged message is missing. Takes less than a minute. Starts its own cluster in a temporary directory
    and deletes it afterwards, unless --keep is given.
    """
    from dlog.demo.run import run

    run(spark=spark, keep=keep, metadata=metadata)
