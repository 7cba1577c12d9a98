"""`dlog demo`: the whole story, on a temporary cluster or on one that is there."""

from __future__ import annotations

from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    spark: Annotated[
        bool, typer.Option("--spark/--no-spark", help="Read the log with Spark at the end.")
    ] = True,
    keep: Annotated[bool, typer.Option("--keep", help="Leave log and directory for a closer look.")] = False,
    metadata: Annotated[
        str | None,
        typer.Option(
            "--metadata",
            metavar="URI",
            help="Use the cluster at this address: its bookies if it has any, else three started for it.",
        ),
    ] = None,
) -> None:
    """See it work, on real data.

    Appends a month of flights, kills a bookie, takes the log over, and proves that nothing is missing.
    Needs no running cluster, takes under a minute, and leaves nothing behind unless --keep is given.
    """
    from dlog.demo.run import run

    run(spark=spark, keep=keep, metadata=metadata)
