"""Verbs about a cluster as a whole: its identity, and how it ends. What they do is in removal.py.

Invariant: importing this module is cheap, as that of ../cli.py.
"""

from __future__ import annotations

from typing import Annotated

import typer

from bookie_server.tools.options import MetadataOption, require_yes


def register(app: typer.Typer) -> None:
    for verb in (instance_id, format_cluster, nuke_cluster):
        app.command(verb.__name__.replace("_", "-"))(verb)


def instance_id(metadata: MetadataOption) -> None:
    """Print the instance id of a cluster."""
    from bookie_server.tools.cluster.removal import read_instance_id

    print(read_instance_id(metadata))


def format_cluster(
    metadata: MetadataOption,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Format even if bookies are registered: they stop, and start again on empty directories only.",
        ),
    ] = False,
) -> None:
    """Delete the metadata of all ledgers, logs and bookies of a cluster, and give it a new instance id.

    Ledger ids go on. Initializes a cluster if there is none.
    """
    from bookie_server.tools.admin import init_cluster
    from bookie_server.tools.cluster.removal import contents, formatted

    found = contents(metadata)
    if found is None:
        print(init_cluster(metadata))
        return
    found.require_unused(force=force)  # before the question: who has answered it expects that it is done
    if not yes:
        require_yes(f"Delete the metadata of {found}?")
    print(formatted(metadata, found, force=force))


def nuke_cluster(
    metadata: MetadataOption,
    confirmed: Annotated[
        str | None,
        typer.Option(
            "--instance-id",
            help="Instance id of the cluster, as `bookie instance-id` prints it: no other cluster is removed.",
            metavar="ID",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Remove the cluster that is there, whatever its instance id.")
    ] = False,
) -> None:
    """Remove a cluster from a metadata store, with all of its ledgers and logs. Its bookies must be stopped.

    Takes --instance-id or --force. `bookie init-cluster` can use the address again; ledger ids then go on.
    """
    from bookie_server.tools.cluster.removal import nuked

    print(nuked(metadata, confirmed, force=force))
