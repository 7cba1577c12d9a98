"""Which logs a query reads: those that it names, or those of the namespace that match a pattern. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from spark_connector.errors import BadOptionError
from spark_connector.options.values import log_option, name_option

CHOICE_NAMES = ("log", "path", "logs", "logsPattern")


@dataclass(frozen=True, slots=True)
class NamedLogs:
    """Each of them must exist."""

    names: tuple[str, ...]
    """Sorted."""

    def __str__(self) -> str:
        return ", ".join(self.names)


@dataclass(frozen=True, slots=True)
class LogPattern:
    """The logs whose whole names match; there may be none."""

    text: str

    def matching(self, names: Iterable[str]) -> list[str]:
        pattern = re.compile(self.text)
        return [name for name in names if pattern.fullmatch(name)]

    def __str__(self) -> str:
        return f"logs that match {self.text!r}"


LogChoice = NamedLogs | LogPattern


def log_choice(given: Mapping[str, str]) -> LogChoice:
    """What `log`, `path`, `logs` and `logsPattern` say: exactly one of them, but `path` may repeat `log`.

    Raises:
        BadOptionError: there is none, or more than one, or it is wrong.
    """
    present = [name for name in CHOICE_NAMES if name.lower() in given]
    if len(present) > 1 and present != ["log", "path"]:
        raise BadOptionError(
            f"options {' and '.join(map(repr, present))} each say which logs are read: set only one of them",
            option=present[-1],
        )
    if present == ["logs"]:
        return NamedLogs(_names(given["logs"]))
    if present == ["logsPattern"]:
        return _pattern(given["logspattern"])
    return NamedLogs(
        (log_option(given, "the name of the log, or set 'logs' or 'logsPattern' to read several"),)
    )


def _names(text: str) -> tuple[str, ...]:
    found = [name.strip() for name in text.split(",")]
    if "" in found:
        raise BadOptionError(
            f"option 'logs' has an empty name in {text!r}: separate names by one comma, like orders,bills",
            option="logs",
        )
    for number, name in enumerate(found):
        if name in found[:number]:
            raise BadOptionError(f"option 'logs' names {name!r} twice: name it once", option="logs")
    return tuple(sorted(name_option("logs", name) for name in found))


def _pattern(text: str) -> LogPattern:
    if not text:
        raise BadOptionError(
            "option 'logsPattern' is empty and matches no name: use a regular expression like orders-.*",
            option="logsPattern",
        )
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise BadOptionError(
            f"option 'logsPattern' {text[:200]!r} is not a valid regular expression of Python: {error}; correct it, "
            "like orders-.*",
            option="logsPattern",
        ) from error
    return LogPattern(text)
