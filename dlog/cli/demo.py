"""`dlog demo`: the whole story on a temporary cluster."""

from __future__ import annotations

from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    spark: Annotated[
        bool, typer.Option("--spark/--no-spark", help="Read the log with Spark at the end.")
    ] = True,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the cluster's directory for a closer look.")
    ] = False,
) -> None:
    """See it work, on real data.

    Appends a month of flights, kills a bookie, takes the log over, and proves that nothing is missing.
    Needs no running cluster, takes under a minute, and leaves nothing behind.
    """
    from dlog.demo.run import run

    run(spark=spark, keep=keep)
