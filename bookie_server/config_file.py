"""A BookieConfig from a TOML file and command-line options. Options override the file.

    metadata = "sqlite:////var/lib/dlog/meta.db"
    data = "/var/lib/dlog/bookie"        # or journal_dir and ledger_dir, which may be a list
    host = "127.0.0.1"
    port = 3181

    [limits]     # config.Limits
    [storage]    # storage.config.StorageConfig
    [repair]     # ledger.repair.config.RepairConfig, but its placement
    [placement]  # ledger.placement.config.PlacementConfig

An unknown name is an error: a misspelt setting must not silently have its default.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Set
from dataclasses import fields
from pathlib import Path
from typing import Any

from bookie_server.config import BookieConfig, Limits
from bookie_server.setting_types import check_types
from bookie_server.storage.config import StorageConfig
from ledger.errors import ConfigurationError
from ledger.metadata.uri import is_utf8
from ledger.placement.config import PlacementConfig
from ledger.repair.config import RepairConfig

PLACES = ("data", "journal_dir", "ledger_dir", "lost_ledger_dir")
TABLES = {"limits": Limits, "storage": StorageConfig, "repair": RepairConfig, "placement": PlacementConfig}
_KNOWN = frozenset({*(each.name for each in fields(BookieConfig)), *PLACES, *TABLES})
GIVEN_ELSEWHERE = frozenset(
    {
        "journal_directory",
        "ledger_directory",
        "more_ledger_directories",
        "lost_ledger_directories",
        "placement",
    }
)


def read_settings(path: Path) -> dict[str, Any]:
    """Read the file as nested tables.

    Raises:
        ConfigurationError: the file cannot be read, is not TOML, or has a name at its top that no bookie's has.
    """
    try:
        with path.open("rb") as file:
            settings = tomllib.load(file)
    except OSError as error:
        raise ConfigurationError(f"cannot read settings file {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        # Not only TOMLDecodeError: Python refuses thousands of digits, and tables nested as deep, in its own way.
        raise ConfigurationError(f"settings file {path} is not valid TOML: {error}") from error
    # Here, since most commands read one of its tables only: a misspelt one would have its defaults.
    _require_known(f"settings file {path}", settings, _KNOWN)
    return settings


def make_config(settings: Mapping[str, Any], flags: Mapping[str, Any]) -> BookieConfig:
    """Make the configuration from the settings of a file, overridden by each flag that is not None.

    Raises:
        ConfigurationError: a name is unknown, a value has the wrong type or range, or a required setting is missing.
    """
    merged = _overridden(settings, flags)
    _require_known("settings", merged, _KNOWN)
    if "metadata" not in merged:
        raise ConfigurationError("no metadata store: give --metadata URI or set DLOG_METADATA")
    tables = {name: _table(name, merged.get(name, {})) for name in TABLES}
    plain = {name: value for name, value in merged.items() if name not in (*PLACES, *TABLES)}
    check_types(BookieConfig, plain)
    storage = make_storage_config(merged, tables["storage"])
    limits = Limits(**tables["limits"])
    repair = RepairConfig(**tables["repair"], placement=PlacementConfig(**tables["placement"]))
    config = BookieConfig(storage=storage, limits=limits, repair=repair, **plain)
    if "http_host" in plain and config.http_port is None:
        raise ConfigurationError(
            f"http_host {config.http_host!r} has no effect without http_port: give --http-port PORT, or leave it out"
        )
    return config


def make_repair_config(settings: Mapping[str, Any], flags: Mapping[str, Any]) -> RepairConfig:
    """Make the settings of repair alone from the table of a bookie's file, overridden by each flag that is not None.

    Raises:
        ConfigurationError: as `make_config`.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    placement = make_placement_config(settings, {})
    return RepairConfig(**{**_table("repair", settings.get("repair", {})), **given}, placement=placement)


def make_placement_config(settings: Mapping[str, Any], flags: Mapping[str, Any]) -> PlacementConfig:
    """Make the settings of placement alone from the table of a bookie's file, overridden by each flag that is not None.

    Raises:
        ConfigurationError: as `make_config`.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    return PlacementConfig(**{**_table("placement", settings.get("placement", {})), **given})


def make_storage_config(places: Mapping[str, Any], table: Mapping[str, Any]) -> StorageConfig:
    """Make the settings of the storage alone, for commands that work on the files of a stopped bookie.

    Raises:
        ConfigurationError: as `make_config`.
    """
    journal, ledgers = _directories(places)
    return StorageConfig(
        journal_directory=journal,
        ledger_directory=ledgers[0],
        more_ledger_directories=tuple(ledgers[1:]),
        lost_ledger_directories=tuple(_places("lost_ledger_dir", places.get("lost_ledger_dir"))),
        **table,
    )


def make_stopped_storage_config(settings: Mapping[str, Any], flags: Mapping[str, Any]) -> StorageConfig:
    """Make the settings of the storage alone from those of a bookie's file, overridden by each flag that is not None.

    Raises:
        ConfigurationError: as `make_config`.
    """
    return make_storage_config(_overridden(settings, flags), _table("storage", settings.get("storage", {})))


def _overridden(settings: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with each flag that was given; `--data` replaces both directories of the file, too."""
    merged = {**settings, **{name: value for name, value in flags.items() if value not in (None, [])}}
    if flags.get("data") is not None:
        merged = {name: value for name, value in merged.items() if name not in PLACES[1:3] or flags.get(name)}
    return merged


def _directories(merged: Mapping[str, Any]) -> tuple[Path, list[Path]]:
    data, journal = (_place(name, merged.get(name)) for name in PLACES[:2])
    ledgers = _places("ledger_dir", merged.get("ledger_dir"))
    if data is not None:
        journal = journal or data / "journal"
        ledgers = ledgers or [data / "ledgers"]
    if journal is None or not ledgers:
        raise ConfigurationError("no data directory: give --data DIR, or --journal-dir and --ledger-dir")
    return journal, ledgers


def _places(name: str, value: object) -> list[Path]:
    """Of a setting that has one directory or a list of them."""
    given = value if isinstance(value, list) else [value]
    return [place for each in given if (place := _place(name, each)) is not None]


def _place(name: str, value: object) -> Path | None:
    if value is None:
        return None
    if not isinstance(value, str | Path) or not str(value) or "\0" in str(value):
        raise ConfigurationError(f"setting {name} must be the path of a directory, got {value!r}")
    place = Path(value).absolute()
    if not is_utf8(str(place)):
        raise ConfigurationError(f"directory {str(place)!r} cannot stand in a cookie: its name is not UTF-8")
    return place


def _table(name: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigurationError(f"setting {name!r} must be a table, got {value!r}")
    config = TABLES[name]
    _require_known(f"table [{name}]", value, {each.name for each in fields(config)} - GIVEN_ELSEWHERE)
    check_types(config, value)
    return value


def _require_known(where: str, given: Mapping[str, Any], known: Set[str]) -> None:
    unknown = sorted(set(given) - known)
    if unknown:
        raise ConfigurationError(
            f"unknown name {unknown[0]!r} in the {where}; known are {', '.join(sorted(known))}"
        )
