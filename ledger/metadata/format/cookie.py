"""A bookie's cookie ↔ bytes, and when two cookies name the same bookie. Pure.

Line 1 is the layout version. Versions 4 and 5 go on in protobuf text (CookieFormat), version 3 is three plain
lines: bookie id, journal directory, ledger directories. The same bytes stand in `current/VERSION` of every
directory and under the bookie's id in the metadata store. Our bookies add to the copy in a directory what the
directory is for, in a line that protobuf text takes for a comment, so that BookKeeper's tools read that copy too.
Table: docs/formats.md, Metadata values. Reasons: docs/bookkeeper.md#cookies.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from ledger.errors import InvalidNameError, MetadataFormatError
from ledger.metadata.format.data_formats_pb2 import CookieFormat
from ledger.metadata.proto_text import parse_text, print_text
from ledger.metadata.uri import is_utf8
from ledger.model import BookieId, check_bookie_id

COOKIE_VERSION = 5
COOKIE_BYTES_MAX = 64 * 1024
"""Refused above this before parsing; a cookie holds some directory names."""

_LAYOUT_VERSION = re.compile(r"[1-9][0-9]{0,8}")
_ROLE = re.compile(r"^# directory: (.*)$", re.MULTILINE)
_ROLE_TEXT = re.compile(r"[a-z]{1,40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cookie:
    """Who a directory belongs to. Empty `index_dirs` means that the ledger directories hold the index."""

    bookie_id: BookieId
    journal_dirs: tuple[str, ...]
    ledger_dirs: tuple[str, ...]
    index_dirs: tuple[str, ...] = ()
    instance_id: str | None = None
    role: str | None = None
    """What the directory with this copy is for: `journal`, `ledger`, `entries`. None in the metadata store, and in
    copies that are Apache's."""
    version: int = COOKIE_VERSION


def encode_cookie(cookie: Cookie) -> bytes:
    """InvalidNameError if a directory in it cannot be written, or if all of them are too long to be read again."""
    _check_directories(cookie)
    data = _encoded(cookie)
    if len(data) > COOKIE_BYTES_MAX:
        count = len(cookie.journal_dirs) + len(cookie.ledger_dirs) + len(cookie.index_dirs)
        raise InvalidNameError(
            f"a cookie with {count} directories takes {len(data)} bytes, above the limit of {COOKIE_BYTES_MAX}: give "
            "fewer directories, or shorter paths"
        )
    return data


def _encoded(cookie: Cookie) -> bytes:
    journal_dir = ",".join(cookie.journal_dirs)
    if cookie.version == 3:
        return f"3\n{cookie.bookie_id}\n{journal_dir}\n{_joined(cookie.ledger_dirs)}\n".encode()
    message = CookieFormat(
        bookieHost=cookie.bookie_id, journalDir=journal_dir, ledgerDirs=_joined(cookie.ledger_dirs)
    )
    if cookie.instance_id is not None:
        message.instanceId = cookie.instance_id
    if cookie.index_dirs:
        message.indexDirs = _joined(cookie.index_dirs)
    role = "" if cookie.role is None else f"# directory: {_checked_role(cookie.role)}\n"
    return f"{cookie.version}\n{print_text(message)}{role}".encode()


def decode_cookie(data: bytes) -> Cookie:
    """The cookie, or MetadataFormatError. Unknown fields are passed over, newer versions refused."""
    if len(data) > COOKIE_BYTES_MAX:
        raise MetadataFormatError(f"a cookie of {len(data)} bytes is above the limit of {COOKIE_BYTES_MAX}")
    try:
        first, _, rest = data.decode().partition("\n")
        match first:
            case "3":
                return _from_lines(rest)
            case "4" | "5":
                return _from_text(int(first), rest)
    except (UnicodeDecodeError, InvalidNameError) as error:
        raise MetadataFormatError(f"the cookie holds an impossible value: {error}") from error
    if not _LAYOUT_VERSION.fullmatch(first):
        raise MetadataFormatError(
            f"the cookie is damaged, since it begins with {first[:40]!r} and not with a layout version: restore it"
        )
    raise MetadataFormatError(
        f"a cookie has layout version {first[:40]!r}, this program reads 3 to {COOKIE_VERSION}: use a newer version"
    )


def cookie_differences(ours: Cookie, theirs: Cookie, *, expansion: bool = False) -> list[str]:
    """What differs, a phrase each; empty when both name the same bookie on the same directories. Roles do not count.

    With `expansion` our directories may be more than theirs (BookKeeper's allowStorageExpansion).
    """
    found = [
        f"{name} is {getattr(ours, field)!r} here and {getattr(theirs, field)!r} there"
        for name, field in (("bookie id", "bookie_id"), ("cluster instance id", "instance_id"))
        if getattr(ours, field) != getattr(theirs, field)
    ]
    for name, here, there in (
        ("journal directories", ours.journal_dirs, theirs.journal_dirs),
        ("ledger directories", ours.ledger_dirs, theirs.ledger_dirs),
        ("index directories", ours.index_dirs or ours.ledger_dirs, theirs.index_dirs or theirs.ledger_dirs),
    ):
        same = set(there) <= set(here) if expansion else here == there
        if not same:
            found.append(f"{name} are {', '.join(here)} here and {', '.join(there)} there")
    return found


def _from_lines(rest: str) -> Cookie:
    lines = rest.splitlines()
    if len(lines) != 3:
        raise MetadataFormatError(f"a cookie of layout version 3 has 3 more lines, this one {len(lines)}")
    return _cookie(3, lines[0], lines[1], lines[2])


def _from_text(version: int, rest: str) -> Cookie:
    message = CookieFormat()
    parse_text(rest, message, "the cookie")
    instance_id = message.instanceId if message.HasField("instanceId") else None
    cookie = _cookie(
        version, message.bookieHost, message.journalDir, message.ledgerDirs, message.indexDirs, instance_id
    )
    return replace(cookie, role=_role(rest))


def _role(text: str) -> str | None:
    found = _ROLE.findall(text)
    if len(found) > 1:
        raise MetadataFormatError(f"the cookie names {len(found)} roles of its directory")
    return _checked_role(found[0]) if found else None


def _checked_role(role: str) -> str:
    if not _ROLE_TEXT.fullmatch(role):
        raise InvalidNameError(f"{role[:40]!r} is no role of a directory in a cookie")
    return role


def _cookie(
    version: int, bookie: str, journals: str, ledgers: str, indexes: str = "", instance_id: str | None = None
) -> Cookie:
    return Cookie(
        bookie_id=check_bookie_id(bookie),
        journal_dirs=tuple(journals.split(",")),
        ledger_dirs=_split(ledgers),
        index_dirs=_split(indexes) if indexes else (),
        instance_id=instance_id,
        version=version,
    )


def _joined(directories: tuple[str, ...]) -> str:
    return "\t".join((str(len(directories)), *directories))


def _split(text: str) -> tuple[str, ...]:
    count, *directories = text.split("\t")
    if count != str(len(directories)) or not directories:
        raise MetadataFormatError(
            f"the cookie announces {count[:20]!r} directories and has {len(directories)}"
        )
    return tuple(directories)


def _check_directories(cookie: Cookie) -> None:
    for path in (*cookie.journal_dirs, *cookie.ledger_dirs, *cookie.index_dirs):
        if not path or any(mark in path for mark in "\t\n\r"):
            raise InvalidNameError(
                f"directory {path!r} cannot stand in a cookie: it is empty or has a tab in it"
            )
        if not is_utf8(path):
            raise InvalidNameError(f"directory {path!r} cannot stand in a cookie: its name is not UTF-8")
    for path in cookie.journal_dirs:
        if "," in path:
            raise InvalidNameError(
                f"journal directory {path!r} cannot stand in a cookie: it has a comma in it"
            )
