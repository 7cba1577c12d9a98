"""Whose disk is this? The cookie in every directory and in the metadata store must tell the same story.

A bookie that starts on an empty or foreign disk under its old name would truthfully say "no such ledger" for
entries it had acknowledged, and recovery would cut them off. So every doubt refuses to start, and says which
directory differs and what to do. `judge` is pure; `prove_identity` carries it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from bookie_server.disk import Disk
from bookie_server.errors import CookieMismatchError
from ledger.errors import AlreadyExistsError, RecordNotFoundError
from ledger.metadata.cookie_format import Cookie, cookie_differences, decode_cookie, encode_cookie
from ledger.metadata.store import MetadataStore
from ledger.model import check_bookie_id

COOKIE_FILE = "VERSION"
START_UP_FILES = frozenset({COOKIE_FILE, COOKIE_FILE + ".tmp", "port", "port.tmp", "lock"})
"""What a start writes before the cookie is everywhere; a directory with nothing else holds no data."""


class Verdict(Enum):
    KNOWN = auto()
    """Every cookie is there and matches."""
    NEW = auto()
    """No data and no cookie in the store: a first start, perhaps one that was interrupted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDirectory:
    """What was found in one of the bookie's directories."""

    directory: Path
    role: str
    cookie: Cookie | None
    holds_data: bool


def own_cookie(bookie_id: str, journal: Path, ledgers: Path, instance_id: str) -> Cookie:
    """The cookie that this configuration asks for."""
    return Cookie(
        bookie_id=check_bookie_id(bookie_id),
        journal_dirs=(str(journal.absolute()),),
        ledger_dirs=(str(ledgers.absolute()),),
        instance_id=instance_id,
    )


def judge(ours: Cookie, in_store: Cookie | None, found: Sequence[FoundDirectory]) -> Verdict:
    """Whether the bookie may start; CookieMismatchError names the first directory that differs."""
    for each in found:
        if each.cookie is not None:
            _require_same(ours, each.cookie, each.directory, f"the cookie in {each.role} {each.directory}")
    if in_store is None:
        for each in found:
            _require_unused(ours, each)
        return Verdict.NEW
    _require_same(ours, in_store, None, "the cookie in the metadata store")
    for each in found:
        if each.cookie is None:
            raise _missing(ours, each)
    return Verdict.KNOWN


async def prove_identity(
    store: MetadataStore, disk: Disk, ours: Cookie, directories: Sequence[tuple[str, Path]]
) -> Verdict:
    """Judge what is there; on a first start write the cookie, the directories before the store."""
    worker = disk.worker("bookie-cookie")
    try:
        found = await worker.run(lambda: [_look(disk, role, directory) for role, directory in directories])
        verdict = judge(ours, await _cookie_in_store(store, ours), found)
        if verdict is Verdict.NEW:
            data = encode_cookie(ours)
            # The store comes last: once it knows the bookie, a directory without cookie means a lost disk.
            await worker.run(lambda: _stamp(disk, directories, data))
            await _create_in_store(store, ours, data)
        return verdict
    finally:
        await worker.close()


def read_cookie(disk: Disk, directory: Path) -> Cookie | None:
    """The cookie in `directory`, None if there is none. MetadataFormatError if it is damaged."""
    path = directory / COOKIE_FILE
    return decode_cookie(disk.read_file(path)) if disk.exists(path) else None


def _look(disk: Disk, role: str, directory: Path) -> FoundDirectory:
    disk.make_directory(directory)
    names = set(disk.list(directory))
    return FoundDirectory(
        directory=directory,
        role=role,
        cookie=read_cookie(disk, directory),
        holds_data=bool(names - START_UP_FILES),
    )


def _stamp(disk: Disk, directories: Sequence[tuple[str, Path]], data: bytes) -> None:
    for _, directory in directories:
        disk.replace_file(directory / COOKIE_FILE, data)


async def _cookie_in_store(store: MetadataStore, ours: Cookie) -> Cookie | None:
    try:
        return decode_cookie((await store.read_cookie(ours.bookie_id)).value)
    except RecordNotFoundError:
        return None


async def _create_in_store(store: MetadataStore, ours: Cookie, data: bytes) -> None:
    try:
        await store.write_cookie(ours.bookie_id, data, None)
    except AlreadyExistsError as error:
        raise CookieMismatchError(
            f"bookie {ours.bookie_id} was formatted by another process at the same moment: "
            f"give each bookie its own --port or id",
            bookie_id=ours.bookie_id,
        ) from error


def _require_same(ours: Cookie, theirs: Cookie, directory: Path | None, where: str) -> None:
    differences = cookie_differences(ours, theirs)
    if differences:
        raise CookieMismatchError(
            f"{where} does not match bookie {ours.bookie_id}: {'; '.join(differences)}: start it with the directories, "
            f"address and metadata store it was formatted with",
            directory=directory,
            bookie_id=ours.bookie_id,
        )


def _require_unused(ours: Cookie, each: FoundDirectory) -> None:
    if not each.holds_data:
        return
    has = "its cookie" if each.cookie is not None else "no cookie"
    raise CookieMismatchError(
        f"{each.role} {each.directory} holds data and {has}, but the metadata store does not know bookie "
        f"{ours.bookie_id}: name the store it belongs to, or empty the directory with `bookie format`",
        directory=each.directory,
        bookie_id=ours.bookie_id,
    )


def _missing(ours: Cookie, each: FoundDirectory) -> CookieMismatchError:
    state = "holds data without a cookie" if each.holds_data else "is empty"
    return CookieMismatchError(
        f"{each.role} {each.directory} {state}, but bookie {ours.bookie_id} was formatted before: mount its "
        f"disk; if that is lost, start a bookie under a new id and let repair copy the entries to it",
        directory=each.directory,
        bookie_id=ours.bookie_id,
    )
