"""Values of options: texts, numbers, flags and names, with an error that names the valid ones. Pure.

Spark's option names ignore case, so `given` has them in lower case; messages name them as documented.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from dlog.model import check_log_name
from ledger.digits import whole_number
from ledger.errors import InvalidNameError
from spark_connector.errors import BadOptionError

T = TypeVar("T")


def required_option(given: Mapping[str, str], name: str, what: str) -> str:
    value = given.get(name.lower(), "")
    if not value:
        raise BadOptionError(f"option {name!r} is missing: set it to {what}", option=name)
    return value


def file_option(given: Mapping[str, str], name: str) -> str | None:
    """The path of a file; None if it is not set."""
    text = given.get(name.lower())
    if text is not None and (not text or "\0" in text):
        raise BadOptionError(f"option {name!r} must be the path of a file, got {text!r}", option=name)
    return text


def log_option(given: Mapping[str, str], what: str = "the name of the log") -> str:
    if "log" in given and "path" in given and given["log"] != given["path"]:
        both = f"'log' ({given['log']!r}) and 'path' ({given['path']!r})"
        raise BadOptionError(f"options {both} name two logs: set only one of them", option="log")
    alias = {"log": given.get("log") or given.get("path", "")}
    return name_option("log", required_option(alias, "log", what))


def name_option(option: str, value: str) -> str:
    return converted(option, value, check_log_name)


def converted(option: str, value: str, parse: Callable[[str], T], otherwise: str = "") -> T:
    try:
        return parse(value)
    except InvalidNameError as error:
        tail = f", {otherwise}" if otherwise else ""
        raise BadOptionError(f"option {option!r}: {error}{tail}", option=option) from error


def number_option(given: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = given.get(name.lower())
    if text is None:
        return default
    number = whole_number(text.strip().replace("_", ""), most)
    if number is None or number < least:
        raise BadOptionError(
            f"option {name!r} must be a whole number from {least} to {most}, got {text!r}", option=name
        )
    return number


def flag_option(given: Mapping[str, str], name: str, default: bool) -> bool:
    text = given.get(name.lower())
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise BadOptionError(f"option {name!r} must be true or false, got {text!r}", option=name)
    return text.lower() == "true"
