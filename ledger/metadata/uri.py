"""Addresses of metadata stores, parsed: `scheme:rest?option=value`. The driver interprets the rest."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import parse_qsl

from ledger.arguments import require_type
from ledger.errors import ConfigurationError, InvalidNameError
from ledger.metadata.record_keys import KEY_CHARACTERS_MAX, check_key

OPTIONS_ABOVE = ("root",)
"""Options of the layers above, which every store accepts."""


@dataclass(frozen=True, slots=True)
class MetadataUri:
    """A parsed address. `rest` is what follows `scheme:`, without the options after `?`."""

    text: str
    scheme: str
    rest: str
    query: str = ""

    @property
    def driver(self) -> str:
        return self.scheme.partition("+")[0]

    def option(self, name: str) -> str | None:
        """Value of `?name=value`; options are for the layers above, drivers pass them on."""
        return next((value for key, value in parse_qsl(self.query) if key == name), None)


def check_options(uri: MetadataUri, of_driver: Iterable[str] = ()) -> None:
    """Refuse options that neither the driver nor the layers above know, that have no value, or two.

    A misspelt one would be without effect, and so would an empty `auth_file`: its nodes would be open to all.

    Raises:
        ConfigurationError: there is one, an option is not UTF-8, or the root is no key.
    """
    address = f"metadata address {without_password(uri.text)!r}"
    known = {*OPTIONS_ABOVE, *of_driver}
    try:
        given = parse_qsl(uri.query, keep_blank_values=True, errors="strict")
    except UnicodeDecodeError:
        raise ConfigurationError(f"{address} is not valid: its options are not UTF-8") from None
    seen: set[str] = set()
    for name, value in given:
        if name not in known:
            raise ConfigurationError(
                f"{address} has the unknown option {name!r}, known are: {', '.join(sorted(known))}"
            )
        if name in seen:
            raise ConfigurationError(f"{address} has the option {name!r} more than once: give it one value")
        if not value:
            raise ConfigurationError(
                f"{address} has the option {name!r} without a value: write {name}=VALUE, or leave it out"
            )
        seen.add(name)
        if name == "root":
            _check_root(address, value)


def _check_root(address: str, root: str) -> None:
    try:
        check_key(root)
    except InvalidNameError:
        raise ConfigurationError(
            f"{address} has root={root[:100]}, which is no key: write /part/part of printable ASCII without spaces, no "
            f"part '.' or '..', at most {KEY_CHARACTERS_MAX} characters, for example root=/dlog"
        ) from None


def without_password(text: str) -> str:
    """For messages. No address of ours has a place for a password, but a user may write `user:password@`."""
    return re.sub(r":[^@\s]*@", ":***@", text)


def is_utf8(text: str) -> bool:
    """Whether the text can be encoded: that of a path with other bytes cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def parse_uri(text: str) -> MetadataUri:
    """Split an address. The driver checks whether the rest makes sense.

    Raises:
        ConfigurationError: not a str of the form `scheme:rest`, or not UTF-8.
    """
    require_type("the metadata address", text, str)
    scheme, colon, rest = text.partition(":")
    if not colon or not rest or not scheme or not scheme.replace("+", "").isalnum():
        raise ConfigurationError(
            f"metadata address {without_password(text)!r} is not valid: write scheme:rest, for example sqlite:///data/meta.db"
        )
    if not is_utf8(text):
        raise ConfigurationError(f"metadata address {without_password(text)!r} is not valid: it is not UTF-8")
    rest, _, query = rest.partition("?")
    return MetadataUri(text, scheme.lower(), rest, query)
