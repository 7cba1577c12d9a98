"""From a TOML file and command-line flags to a BookieConfig. Flags win over the file.

    metadata = "sqlite:////var/lib/dlog/meta.db"
    data = "/var/lib/dlog/bookie"        # or journal_dir and ledger_dir
    host = "127.0.0.1"
    port = 3181

    [limits]     # config.Limits
    [storage]    # storage_config.StorageConfig

An unknown name is an error: a misspelt setting must not silently be the default.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from bookie_server.config import BookieConfig, Limits
from bookie_server.setting_types import check_types
from bookie_server.storage.config import StorageConfig
from ledger.errors import ConfigurationError

PLACES = ("data", "journal_dir", "ledger_dir")
TABLES = ("limits", "storage")
GIVEN_BY_PLACES = frozenset({"journal_directory", "ledger_directory"})


def read_settings(path: Path) -> dict[str, Any]:
    """The file as nested tables. ConfigurationError if it cannot be read or is no TOML."""
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ConfigurationError(f"cannot read the settings file {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the settings file {path} is not TOML: {error}") from error


def make_config(settings: Mapping[str, Any], flags: Mapping[str, Any]) -> BookieConfig:
    """Settings of the file, overridden by every flag that is not None."""
    merged = {**settings, **{name: value for name, value in flags.items() if value is not None}}
    if flags.get("data") is not None:
        merged = {name: value for name, value in merged.items() if name not in PLACES[1:] or flags.get(name)}
    known = {each.name for each in fields(BookieConfig)}
    _require_known("settings", merged, known | set(PLACES))
    if "metadata" not in merged:
        raise ConfigurationError("no metadata store is named: give --metadata URI or set DLOG_METADATA")
    tables = {name: _table(name, merged.get(name, {})) for name in TABLES}
    plain = {name: value for name, value in merged.items() if name not in (*PLACES, *TABLES)}
    check_types(BookieConfig, plain)
    storage = make_storage_config(merged, tables["storage"])
    return BookieConfig(storage=storage, limits=Limits(**tables["limits"]), **plain)


def make_storage_config(places: Mapping[str, Any], table: Mapping[str, Any]) -> StorageConfig:
    """Settings of the storage alone, for commands that look at a stopped bookie's files."""
    journal, ledgers = _directories(places)
    return StorageConfig(journal_directory=journal, ledger_directory=ledgers, **table)


def _directories(merged: Mapping[str, Any]) -> tuple[Path, Path]:
    data, journal, ledgers = (_place(name, merged.get(name)) for name in PLACES)
    if data is not None:
        journal = journal or data / "journal"
        ledgers = ledgers or data / "ledgers"
    if journal is None or ledgers is None:
        raise ConfigurationError("no place for the data is named: give --data DIR (or both of its parts)")
    journal, ledgers = journal.absolute(), ledgers.absolute()
    if journal == ledgers:
        raise ConfigurationError(f"journal and ledgers need a directory each, both are {journal}")
    return journal, ledgers


def _place(name: str, value: object) -> Path | None:
    if value is None:
        return None
    if not isinstance(value, str | Path) or not str(value):
        raise ConfigurationError(f"setting {name} must be the path of a directory, got {value!r}")
    return Path(value)


def _table(name: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigurationError(f"setting {name!r} must be a table, got {value!r}")
    config = Limits if name == "limits" else StorageConfig
    _require_known(f"[{name}]", value, {each.name for each in fields(config)} - GIVEN_BY_PLACES)
    check_types(config, value)
    return value


def _require_known(where: str, given: Mapping[str, Any], known: set[str]) -> None:
    unknown = sorted(set(given) - known)
    if unknown:
        raise ConfigurationError(
            f"unknown name {unknown[0]!r} in the {where}; known are {', '.join(sorted(known))}"
        )
