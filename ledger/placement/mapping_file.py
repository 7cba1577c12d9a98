"""A file with locations of bookies: `ID-OR-HOST LOCATION` a line, as Hadoop's topology table; `#` begins a comment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ledger.errors import ConfigurationError, InvalidNameError
from ledger.model import BookieInfo, Location, check_bookie_id, check_location

_BYTES_MAX = 16 * 1024 * 1024


def read_mapping(path: Path) -> dict[str, Location]:
    """Locations by bookie id or host name.

    Raises:
        ConfigurationError: the file cannot be read, or a line is not `ID-OR-HOST /zone/rack`; the message names it.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigurationError(f"cannot read mapping file {path}: {reason}") from error
    if len(data) > _BYTES_MAX:
        raise ConfigurationError(f"mapping file {path} has more than {_BYTES_MAX} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"mapping file {path} is not UTF-8 text: {error}") from error
    return parse_mapping(text, str(path))


def parse_mapping(text: str, name: str) -> dict[str, Location]:
    """The same of a text; `name` is for messages.

    Raises:
        ConfigurationError: see `read_mapping`.
    """
    found: dict[str, Location] = {}
    for number, line in enumerate(text.split("\n"), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        where = f"line {number} of mapping file {name}"
        if len(words) != 2:
            raise ConfigurationError(
                f"{where} must be a bookie id or host and a location, got {line.strip()!r:.80}"
            )
        try:
            key, location = check_bookie_id(words[0]), check_location(words[1])
        except InvalidNameError as error:
            raise ConfigurationError(f"{where}: {error}") from error
        if found.setdefault(key, location) != location:
            raise ConfigurationError(f"{where} gives {key} a second location, {words[1]}")
    return found


def location_of(info: BookieInfo, mapping: Mapping[str, Location]) -> Location:
    """Where a bookie is: by its id, else by its host, else as it publishes; empty if that is not known."""
    return mapping.get(info.bookie_id) or mapping.get(info.host) or info.location
