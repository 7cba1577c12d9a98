"""The verb `bookie placement`. What it does is in placement.py.

Invariant: importing this module is cheap, as that of cli.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bookie_server.tools.options import MetadataOption, Output, OutputOption
from bookie_server.tools.repair.cli import say
from ledger.errors import ConfigurationError

ExcludeOption = Annotated[
    list[str] | None, typer.Option(help="Bookie to leave out; may be repeated.", metavar="ID")
]
LedgersOption = Annotated[
    bool,
    typer.Option("--ledgers", help="List the ledgers whose copies span less, and fail if there are any."),
]
MappingOption = Annotated[
    Path | None, typer.Option(help="File with locations of bookies, as `mapping_file`.", metavar="FILE")
]
RacksOption = Annotated[
    int | None, typer.Option(help="Racks that a write quorum spans (default: 2).", metavar="N", min=1)
]
ZonesOption = Annotated[
    int | None, typer.Option(help="Zones that a write quorum spans (default: 1).", metavar="N", min=1)
]
EnforceOption = Annotated[
    bool | None, typer.Option("--enforce", help="Refuse what spans less, as the setting does.")
]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="TOML file with a table [placement]; options override it.", metavar="FILE"),
]


def register(app: typer.Typer) -> None:
    app.command()(placement)


def placement(
    metadata: MetadataOption,
    ensemble: Annotated[
        int, typer.Option(help="Bookies of the ledger to choose for.", metavar="N", min=1)
    ] = 3,
    write: Annotated[int, typer.Option(help="Copies of each of its entries.", metavar="N", min=1)] = 3,
    ack: Annotated[int, typer.Option(help="Copies that an acknowledgement needs.", metavar="N", min=1)] = 2,
    exclude: ExcludeOption = None,
    ledgers: LedgersOption = False,
    rack_mapping: MappingOption = None,
    racks: RacksOption = None,
    zones: ZonesOption = None,
    enforce: EnforceOption = None,
    config: ConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show which bookies a new ledger may get, why not others, and an ensemble as it could be chosen now.

    With --ledgers the metadata of all ledgers is checked instead. Nothing is changed.
    """
    from bookie_server.config_file import make_placement_config, read_settings
    from bookie_server.tools.repair.placement import explained, narrow_ledgers
    from ledger.model import QuorumSizes
    from ledger.printing import print_facts, print_json, print_table, with_words

    if ledgers and exclude:
        raise ConfigurationError(
            f"--exclude {exclude[0]} does not go with --ledgers, which checks the ledgers that there are: leave out one"
        )
    mapping = None if rack_mapping is None else str(rack_mapping)
    flags = {"mapping_file": mapping, "racks_min": racks, "zones_min": zones, "enforce": enforce}
    settings = make_placement_config(read_settings(config) if config is not None else {}, flags)
    if ledgers:
        report = narrow_ledgers(metadata, settings, say=say)
    else:
        quorum = QuorumSizes(ensemble=ensemble, write=write, ack=ack)
        report = explained(metadata, settings, quorum, exclude or [])
    if output is Output.JSON:
        print_json(report.as_row())
    else:
        if report.rows:
            print_table(tuple(report.rows[0]), [list(with_words(row).values()) for row in report.rows])
        print_facts(with_words(report.facts))
    if report.error is not None:
        raise report.error
