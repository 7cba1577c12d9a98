"""Input of the demo: a month of flights. A CSV line is a message, its key is the carrier.

The file is in `examples/data/` of a checkout and below `share/dlog/` of an installation:
docs/decisions/0002-demo-data.md.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from ledger.errors import ConfigurationError

FILE = "flights-2013-01.csv.gz"
_DELAY_COLUMN, _CARRIER_COLUMN = 5, 9


@dataclass(frozen=True, slots=True)
class Flight:
    """One line of the file. `departure_delay` is in minutes, None if the flight was cancelled."""

    line: bytes
    carrier: bytes
    departure_delay: float | None


def find_file() -> Path:
    """Path of the data file.

    Raises:
        ConfigurationError: neither a checkout nor an installation has it.
    """
    in_checkout = Path(__file__).parents[2] / "examples" / "data" / FILE
    if in_checkout.is_file():
        return in_checkout
    for file in metadata.files("dlog-bookkeeper") or ():
        if file.name == FILE:
            found = Path(str(file.locate()))
            if found.is_file():
                return found
    raise ConfigurationError(
        f"the demo's data file {FILE} is missing: install dlog-bookkeeper again, or run this in a checkout"
    )


def load(path: Path) -> list[Flight]:
    """Every flight, in the order of the file."""
    try:
        text = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigurationError(f"cannot decompress {path}: {error}") from error
    header, *lines = text.splitlines()
    names = header.split(b",")
    if len(names) <= _CARRIER_COLUMN or (names[_DELAY_COLUMN], names[_CARRIER_COLUMN]) != (
        b"dep_delay",
        b"carrier",
    ):
        raise ConfigurationError(
            f"{path} is not a flights file: column 6 must be dep_delay and column 10 carrier"
        )
    return [_flight(line) for line in lines]


def delay_field(line: bytes) -> bytes:
    """The departure delay as the file has it: a number of minutes, or NA."""
    return line.split(b",")[_DELAY_COLUMN]


def _flight(line: bytes) -> Flight:
    fields = line.split(b",")
    delay = fields[_DELAY_COLUMN]
    return Flight(line, fields[_CARRIER_COLUMN], None if delay == b"NA" else float(delay))


def mean_delay_by_carrier(flights: Sequence[Flight]) -> dict[str, float]:
    """Mean departure delay in minutes by carrier, without cancelled flights."""
    sums: dict[str, list[float]] = {}
    for flight in flights:
        if flight.departure_delay is not None:
            sums.setdefault(flight.carrier.decode(), []).append(flight.departure_delay)
    return {carrier: sum(delays) / len(delays) for carrier, delays in sums.items()}
