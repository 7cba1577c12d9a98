"""Check that the values of settings have the types that a config class declares. Pure.

TOML and Python are both typed, so nothing is converted: a port in quotes is an error.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, get_args, get_type_hints

from ledger.errors import ConfigurationError

NAMES = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}


def check_types(config: type, settings: Mapping[str, Any]) -> None:
    """ConfigurationError that names the first setting whose value is not of its field's type.

    Every name must be a field of the class. Fields of other types than those in NAMES are not looked at.
    """
    hints = get_type_hints(config)
    for name, value in settings.items():
        wanted = next((each for each in (hints[name], *get_args(hints[name])) if each in NAMES), None)
        if wanted is not None and value is not None and not _is(value, wanted):
            too_large = " of at most 64 bits" if wanted is int and type(value) is int else ""
            raise ConfigurationError(f"setting {name} must be {NAMES[wanted]}{too_large}, got {value!r:.80}")


def _is(value: object, wanted: type) -> bool:
    if wanted is float:
        # A whole number of any length is one for TOML and Python.
        return type(value) in (int, float) and abs(value) <= sys.float_info.max  # type: ignore[arg-type]  # a number
    # A boolean is an integer to Python, but `port = true` is none to anybody else.
    return type(value) is wanted and (wanted is not int or abs(value) < 2**63)  # type: ignore[arg-type]  # an int
