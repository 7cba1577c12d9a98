"""Checks of arguments: whether a value has the expected type. Pure; nothing is converted.

Python finds a wrong type where the value is first used, which may be deep inside, later, or in another thread. The
public functions check first, so that the error is raised where the mistake was made.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Sequence
from dataclasses import fields
from enum import Enum, StrEnum
from functools import cache
from typing import Any, NewType, TypeVar, Union, get_args, get_origin, get_type_hints

from ledger.errors import ConfigurationError

_Choice = TypeVar("_Choice", bound=StrEnum)

NUMBER_MAX = sys.float_info.max
"""More overflows where it is compared with a time or divided, and Python does not print much more."""

NAMES: dict[object, str] = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    bool: "True or False",
    bytes: "bytes",
    type(None): "None",
}


def require_type(what: str, value: object, *kinds: type) -> None:
    """Check that the value has one of the types. An int is a number too, a bool is not, nor are NaN and infinity.

    One that no float holds has no type: each value has limits of its own below that.

    Raises:
        ConfigurationError: it has none; the message names `what`.
    """
    if not any(_is(value, kind) for kind in kinds):
        raise _wrong(what, kinds, _shown(value))


def require_choice(what: str, value: object, allowed: Sequence[_Choice]) -> _Choice:
    """The one of `allowed` that the value is, or whose text it is.

    Raises:
        ConfigurationError: it is none of them; the message names `what`.
    """
    for each in allowed:
        if isinstance(value, str) and value == each:
            return each
    raise ConfigurationError(f"{what} must be one of {', '.join(allowed)}, got {value!r}")


def require_fields(config: Any) -> None:
    """Check every field of a dataclass against its annotation.

    Raises:
        ConfigurationError: a field has another type.
    """
    for name, kinds, shown in _kinds(type(config)):  # type: ignore[arg-type]  # a class can be hashed
        value = getattr(config, name)
        if not any(_is(value, kind) for kind in kinds):
            raise _wrong(
                f"{name} of {type(config).__name__}", kinds, _shown(value) if shown else _kind_of(value)
            )


@cache
def _kinds(config: Any) -> list[tuple[str, tuple[type, ...], bool]]:
    """Name, kinds, and whether a value may be shown: one that `repr` leaves out is a secret."""
    hints = get_type_hints(config)
    return [(each.name, tuple(_plain(hints[each.name])), each.repr) for each in fields(config)]


def as_bytes(payload: object) -> bytes:
    """A payload that is not bytes already. `bytes` would turn a number into this number of zeros.

    Raises:
        ConfigurationError: not a bytes-like object.
    """
    require_type("a payload", payload, bytes, bytearray, memoryview)
    return bytes(payload)  # type: ignore[call-overload, no-any-return]  # just checked


def _plain(hint: Any) -> list[type]:
    if isinstance(hint, NewType):
        return _plain(hint.__supertype__)
    if get_origin(hint) in (Union, types.UnionType):
        return [kind for each in get_args(hint) for kind in _plain(each)]
    return [get_origin(hint) or hint]


def _wrong(what: str, kinds: tuple[type, ...], got: str) -> ConfigurationError:
    return ConfigurationError(f"{what} must be {' or '.join(map(_name, kinds))}, got {got}")


def _is(value: object, kind: type) -> bool:
    if kind is float:
        return type(value) in (int, float) and abs(value) <= NUMBER_MAX  # type: ignore[arg-type]  # a number
    if kind is int:
        return isinstance(value, int) and type(value) is not bool and abs(value) <= NUMBER_MAX
    return isinstance(value, kind)


def _name(kind: type) -> str:
    if issubclass(kind, Enum):
        return f"one of {', '.join(f'{kind.__name__}.{each.name}' for each in kind)}"
    return NAMES.get(kind) or f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"


def _shown(value: object) -> str:
    """The value and its type. Bytes may be a secret in the wrong place, so their content is not shown."""
    if isinstance(value, int) and abs(value) > NUMBER_MAX:
        return f"one of {value.bit_length()} bits, which is too large"
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(value)} {type(value).__name__}"
    return repr(value) if value is None or isinstance(value, bool) else f"{value!r:.80} ({_kind_of(value)})"


def _kind_of(value: object) -> str:
    return type(value).__name__
