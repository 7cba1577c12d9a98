"""Options that several verbs of `bookie` have."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.models import OptionInfo

from ledger.command_line import FAILED, confirmed, say
from ledger.errors import ConfigurationError

if TYPE_CHECKING:
    from bookie_server.storage.config import StorageConfig


class Output(StrEnum):
    """How results are printed."""

    TEXT = "text"
    JSON = "json"


MetadataOption = Annotated[
    str,
    typer.Option("--metadata", help="Address of the metadata store.", metavar="URI", envvar="DLOG_METADATA"),
]
LogLevelOption = Annotated[
    str | None,
    typer.Option(
        help="What the log on stderr shows: debug, info, warning or error (default: info).", metavar="LEVEL"
    ),
]
OutputOption = Annotated[Output, typer.Option("-o", "--output", help="Output format.")]


def _directory(option: str, help_text: str) -> OptionInfo:
    """The option of a directory. An empty one, as of an unset variable, would be where the command runs: refused."""

    def parse(text: str) -> Path:
        if not text:
            raise ConfigurationError(f"{option} is empty: give a directory, or leave the option out")
        return Path(text)

    found: OptionInfo = typer.Option(option, help=help_text, metavar="DIR", parser=parse)
    return found


DataOption = Annotated[Path | None, _directory("--data", "Directory of the journal and the ledgers.")]
JournalOption = Annotated[
    Path | None, _directory("--journal-dir", "Journal directory (default: DATA/journal).")
]
LedgersOption = Annotated[
    list[Path] | None,
    _directory(
        "--ledger-dir",
        "Ledger directory (default: DATA/ledgers). The first one has the index; repeat it for more disks.",
    ),
]
LostOption = Annotated[
    list[Path] | None,
    _directory(
        "--lost-ledger-dir", "Ledger directory of an earlier start whose disk is lost: go on without it."
    ),
]


def require_yes(question: str) -> None:
    """Ask, and end the command with 1 if the answer is no."""
    if not confirmed(question):
        say("bookie", "nothing was changed")
        raise typer.Exit(FAILED)


def storage_of(
    data: Path | None,
    journal_dir: Path | None,
    ledger_dir: list[Path] | None,
    config: Path | None = None,
    *,
    lost: list[Path] | None = None,
) -> StorageConfig:
    """The settings of the storage for a command on a bookie's directories."""
    from bookie_server.config_file import make_stopped_storage_config, read_settings

    settings = read_settings(config) if config is not None else {}
    flags = {"data": data, "journal_dir": journal_dir, "ledger_dir": ledger_dir, "lost_ledger_dir": lost}
    return make_stopped_storage_config(settings, flags)
