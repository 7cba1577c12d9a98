"""Times and sizes on the command line: `7d`, `10GB`. Pure."""

from __future__ import annotations

import re

from ledger.errors import ConfigurationError

_QUANTITY = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)([A-Za-z]*)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_BYTES = {"": 1, "B": 1} | {
    f"{letter}{suffix}": base**power
    for power, letter in enumerate("KMGTP", 1)
    for suffix, base in (("B", 1000), ("iB", 1024))
}


def seconds_of(text: str, option: str) -> float:
    """The seconds in `7d`. ConfigurationError: it has another form."""
    return _value(text, _SECONDS, option, "a time like 90s, 30m, 12h or 7d")


def bytes_of(text: str, option: str) -> int:
    """The bytes in `10GB` or `512MiB`. ConfigurationError: it has another form."""
    return round(_value(text, _BYTES, option, "a size like 500000, 512MiB or 10GB"))


def _value(text: str, units: dict[str, int], option: str, form: str) -> float:
    found = _QUANTITY.fullmatch(text)
    if found is None or found[2] not in units:
        raise ConfigurationError(f"{option} must be {form}, got {text!r}")
    return float(found[1]) * units[found[2]]
