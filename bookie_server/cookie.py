"""The identity of a bookie's disks: the cookies in its directories and in the metadata store must match.

A bookie that starts on an empty or foreign disk under its old id would answer "no such ledger" for entries that it
acknowledged, and recovery would cut them off. So any doubt is a refusal to start, which names the directory that
differs and what to do. `judge` is pure; `prove_identity` and `keep_in_store` read and write.

Order of a first start: cookies in the directories, the first journal file, the log mark, the cookie in the store.
So a bookie that the store knows has all of them, and what is missing was lost.

A bookie may get more ledger directories, which are empty then, and give up one whose disk is lost; never the one with
the index. Their cookies are written first, the store's last. So a directory that the store does not list was never used
or was given up, and a directory with entries in it that was given up is always refused.

Protocol: docs/bookkeeper.md#cookies. Pitfall: docs/pitfalls.md#empty-disk-under-an-old-name.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import partial
from pathlib import Path

from bookie_server.disk.disk import Disk
from bookie_server.disk.lost_directory import may_be_lost
from bookie_server.disk.numbered_files import numbers_of
from bookie_server.disk.reserve import Reserve
from bookie_server.errors import CookieMismatchError, DiskFullError
from bookie_server.storage.config import StorageConfig
from bookie_server.storage.entry_logs.format import SUFFIX
from bookie_server.storage.start.first_files import journal_is_unused, ledgers_are_unused, make_first_files
from bookie_server.storage.storage_paths import ENTRY_LOGS, StoragePaths
from ledger.environment import Environment
from ledger.errors import AlreadyExistsError, MetadataFormatError, RecordNotFoundError
from ledger.metadata.format.cookie import Cookie, cookie_differences, decode_cookie, encode_cookie
from ledger.metadata.store import MetadataStore
from ledger.model import check_bookie_id

COOKIE_FILE = "VERSION"
START_UP_FILES = frozenset({COOKIE_FILE, COOKIE_FILE + ".tmp", "port", "port.tmp", "lock"})
"""What a start writes before it knows whose directories these are."""
_FILE_SYSTEM_FILES = frozenset({"lost+found"})
"""What a new file system has of its own: a directory may be the root of one."""
JOURNAL, LEDGER, ENTRIES = "journal", "ledger", "entries"
"""What a directory is for, as its cookie says. ENTRIES: one of the ledger directories without the index."""

logger = logging.getLogger(__name__)


class Verdict(Enum):
    KNOWN = auto()
    """Every cookie is there and matches, and so is the log mark."""
    NEW = auto()
    """Nothing was ever stored and the store has no cookie: a first start, perhaps one that was interrupted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDirectory:
    """What was found in one of the bookie's directories."""

    directory: Path
    role: str
    cookie: Cookie | None
    holds_data: bool
    """There is more than an interrupted first start leaves."""
    missing: Path | None = None
    """A file that is not there although each bookie known to the store has it."""


def own_cookie(
    bookie_id: str, journal: Path, ledgers: Path, instance_id: str, more: Sequence[Path] = ()
) -> Cookie:
    """The cookie that this configuration asks for."""
    return Cookie(
        bookie_id=check_bookie_id(bookie_id),
        journal_dirs=(str(journal.absolute()),),
        ledger_dirs=tuple(str(each.absolute()) for each in (ledgers, *more)),
        instance_id=instance_id,
    )


def judge(
    ours: Cookie,
    in_store: Cookie | None,
    found: Sequence[FoundDirectory],
    lost: Collection[str] = (),
) -> Verdict:
    """Whether the bookie may start; CookieMismatchError names the first directory that differs.

    `lost`: ledger directories that are given up.
    """
    added = {
        each.directory
        for each in found
        if in_store and each.role == ENTRIES and str(each.directory.absolute()) not in in_store.ledger_dirs
    }
    for each in found:
        if each.cookie is not None:
            _require_own(ours, each.cookie, each.directory, f"the cookie in {_named(each)}")
        if each.directory in added:
            _require_never_used(ours, each)
        if each.cookie is not None:
            _require_same(ours, each.cookie, each.directory, f"the cookie in {_named(each)}", lost)
            _require_role(ours, each, each.cookie.role)
    if in_store is None:
        for each in found:
            _require_unused(ours, each)
        return Verdict.NEW
    _require_same(ours, in_store, None, "the cookie in the metadata store", lost)
    for each in found:
        if each.cookie is None and each.directory not in added:
            raise _without_cookie(ours, each)
    for each in found:
        if each.missing is not None:
            raise _incomplete(ours, each, each.missing)
    return Verdict.KNOWN


async def _nothing_else() -> None:
    """The default of `before_first`."""


async def prove_identity(
    store: MetadataStore,
    disk: Disk,
    ours: Cookie,
    config: StorageConfig,
    environment: Environment,
    *,
    before_first: Callable[[], Awaitable[None]] = _nothing_else,
) -> Verdict:
    """Judge what is there; on a first start make it, the directories before the store.

    `before_first` may refuse a first start by an error; nothing was written then. On return the directories are this
    bookie's, and LedgerStorage can be opened. CookieMismatchError, DiskFullError, DiskFailedError.
    """
    worker = disk.worker("bookie-cookie")
    try:
        found = await worker.run(partial(_look, disk, config))
        lost = [str(each.absolute()) for each in config.lost_ledger_directories]
        verdict = judge(ours, await _cookie_in_store(store, ours), found, lost)
        if verdict is Verdict.NEW:
            await before_first()
            await worker.run(partial(_prepare, disk, ours, config, environment))
            # The store comes last: once it knows the bookie, what is missing was lost with its disk.
            await _create_in_store(store, ours)
        else:
            await worker.run(partial(_list_directories, disk, ours, config, found))
            await _list_in_store(store, ours)
        return verdict
    finally:
        await worker.close()


async def keep_in_store(store: MetadataStore, ours: Cookie) -> None:
    """After each registration of a bookie whose directories are proven: write its cookie back if the store has none.

    Invariant: a bookie that is registered has its cookie. It registers, then reads the cookie; `bookie decommission`
    removes the cookie, then reads the registrations. So at least one of the two meets the other, and writes it back.

    CookieMismatchError if the store has another one.
    """
    while (in_store := await _cookie_in_store(store, ours)) is None:
        with suppress(AlreadyExistsError):
            await store.write_cookie(ours.bookie_id, encode_cookie(ours), None)
    _require_same(ours, in_store, None, "the cookie in the metadata store")


def read_cookie(disk: Disk, directory: Path) -> Cookie | None:
    """The cookie in `directory`, None if there is none. MetadataFormatError if it is damaged."""
    path = directory / COOKIE_FILE
    if not disk.exists(path):
        return None
    try:
        return decode_cookie(disk.read_file(path))
    except MetadataFormatError as error:
        raise MetadataFormatError(
            f"{path}: {error}; if it is damaged, put a copy of {COOKIE_FILE} from another directory of this bookie "
            "there, without its last line",
            key=str(path),
        ) from error


def _look(disk: Disk, config: StorageConfig) -> list[FoundDirectory]:
    paths = StoragePaths.of(config)
    for directory in (paths.journal, paths.ledgers):
        disk.make_directory(directory)
    return [
        FoundDirectory(
            directory=paths.journal,
            role=JOURNAL,
            cookie=read_cookie(disk, paths.journal),
            holds_data=not journal_is_unused(disk, paths.journal, stored_names(disk, paths.journal)),
        ),
        FoundDirectory(
            directory=paths.ledgers,
            role=LEDGER,
            cookie=read_cookie(disk, paths.ledgers),
            holds_data=not ledgers_are_unused(disk, paths.ledgers, stored_names(disk, paths.ledgers)),
            missing=None if disk.exists(paths.mark) else paths.mark,
        ),
        *(_look_at_more(disk, paths, directory) for directory in paths.more),
    ]


def _look_at_more(disk: Disk, paths: StoragePaths, directory: Path) -> FoundDirectory:
    with may_be_lost(paths, directory):
        disk.make_directory(directory)
        return FoundDirectory(
            directory=directory,
            role=ENTRIES,
            cookie=read_cookie(disk, directory),
            holds_data=_has_entry_logs(disk, directory / ENTRY_LOGS),
        )


def _has_entry_logs(disk: Disk, directory: Path) -> bool:
    return disk.exists(directory) and bool(numbers_of(disk, directory, SUFFIX))


def stored_names(disk: Disk, directory: Path) -> set[str]:
    """What is in the directory that neither a start nor a new file system has put there. Blocks."""
    return set(disk.list(directory)) - START_UP_FILES - _FILE_SYSTEM_FILES


def _prepare(disk: Disk, ours: Cookie, config: StorageConfig, environment: Environment) -> None:
    """All that a known bookie has in its directories."""
    for role, directory in roles(config):
        _put_cookie(disk, directory, role, ours)
    make_first_files(disk, config, environment.token)


def roles(config: StorageConfig) -> list[tuple[str, Path]]:
    """What each of the directories is for."""
    more = ((ENTRIES, each) for each in config.more_ledger_directories)
    return [(JOURNAL, config.journal_directory), (LEDGER, config.ledger_directory), *more]


def _list_directories(
    disk: Disk, ours: Cookie, config: StorageConfig, found: Sequence[FoundDirectory]
) -> None:
    """Have each directory list those there are now, the journal's last.

    A full disk is a reason to add one: the reserve is spent on that, and a full directory without the index keeps its
    cookie, until a later start.
    """
    paths = StoragePaths.of(config)
    reserve = Reserve(disk, paths.reserve, config.reserve_bytes)
    for each in reversed(found):
        if each.cookie is not None and each.cookie.ledger_dirs == ours.ledger_dirs:
            continue
        put = partial(_put_cookie, disk, each.directory, each.role, ours)
        try:
            with may_be_lost(paths, each.directory):
                put()
        except DiskFullError as full:
            if each.role == ENTRIES and each.cookie is not None:
                logger.warning("its cookie lists ledger directories of an earlier start: %s", full)
            elif reserve.release():
                put()
            else:
                raise


def _put_cookie(disk: Disk, directory: Path, role: str, ours: Cookie) -> None:
    disk.replace_file(directory / COOKIE_FILE, encode_cookie(replace(ours, role=role)))


async def _cookie_in_store(store: MetadataStore, ours: Cookie) -> Cookie | None:
    try:
        value = (await store.read_cookie(ours.bookie_id)).value
    except RecordNotFoundError:
        return None
    try:
        return decode_cookie(value)
    except MetadataFormatError as error:
        where = f"cookie of bookie {ours.bookie_id} in {store.uri}"
        raise MetadataFormatError(f"{where}: {error}", key=ours.bookie_id) from error


async def _list_in_store(store: MetadataStore, ours: Cookie) -> None:
    """The same for the store's cookie, which `judge` has seen. LogStoreError if another process changes it now."""
    stored = await store.read_cookie(ours.bookie_id)
    if decode_cookie(stored.value).ledger_dirs != ours.ledger_dirs:
        await store.write_cookie(ours.bookie_id, encode_cookie(ours), stored.version)


async def _create_in_store(store: MetadataStore, ours: Cookie) -> None:
    try:
        await store.write_cookie(ours.bookie_id, encode_cookie(ours), None)
    except AlreadyExistsError as error:
        raise CookieMismatchError(
            f"another process started as bookie {ours.bookie_id} at the same time: give each bookie its own --port "
            f"or --bookie-id",
            bookie_id=ours.bookie_id,
        ) from error


def _require_own(ours: Cookie, theirs: Cookie, directory: Path | None, where: str) -> None:
    """Of this bookie, whatever its directories are."""
    identity = replace(ours, bookie_id=theirs.bookie_id, instance_id=theirs.instance_id)
    if differences := cookie_differences(ours, identity):
        raise CookieMismatchError(
            f"{where} does not match bookie {ours.bookie_id}, it is of another one: {'; '.join(differences)}: give the "
            f"bookie directories of its own, or start it with the address and metadata store of its first start",
            directory=directory,
            bookie_id=ours.bookie_id,
        )


def _require_same(
    ours: Cookie, theirs: Cookie, directory: Path | None, where: str, lost: Collection[str] = ()
) -> None:
    """Except for ledger directories that are new, or lost; all have the one with the index."""
    _require_own(ours, theirs, directory, where)
    first, their_first = ours.ledger_dirs[0], theirs.ledger_dirs[0]
    if first == their_first:
        for listed in theirs.ledger_dirs[1:]:
            if listed not in ours.ledger_dirs and listed not in lost:
                raise CookieMismatchError(
                    f"{where} lists the ledger directory {listed}, and it is not given: start bookie {ours.bookie_id} "
                    f"with it, too (--ledger-dir); only if its disk is lost, give it up: --lost-ledger-dir {listed}",
                    directory=Path(listed),
                    bookie_id=ours.bookie_id,
                )
    differences = cookie_differences(ours, replace(theirs, ledger_dirs=ours.ledger_dirs))
    if first != their_first:
        differences.append(
            f"the first ledger directory, which has the index, is {first} here and {their_first} there"
        )
    if differences:
        raise CookieMismatchError(
            f"{where} does not match bookie {ours.bookie_id}: {'; '.join(differences)}: start the bookie with the "
            f"directories of its first start",
            directory=directory,
            bookie_id=ours.bookie_id,
        )


def _require_role(ours: Cookie, each: FoundDirectory, role: str | None) -> None:
    """A cookie without a role is of an older version of ours; there the log mark alone tells the directories apart."""
    if role in (None, each.role):
        return
    raise CookieMismatchError(
        f"{_named(each)} has the cookie of the {role} directory of bookie {ours.bookie_id}: swap the mounts, or give "
        f"the directories as in earlier starts",
        directory=each.directory,
        bookie_id=ours.bookie_id,
    )


def _require_unused(ours: Cookie, each: FoundDirectory) -> None:
    """A cookie here names the cluster of this store, as `judge` has seen: only a decommission has removed the other."""
    if not each.holds_data:
        return
    if each.cookie is None:
        has, way_out = "no cookie", "give the metadata store of its cluster, or empty the directory"
    else:
        has = "its cookie"
        way_out = (
            "it was decommissioned, or formatted in part; to start it as a new bookie, empty its directories"
        )
    raise CookieMismatchError(
        f"{_named(each)} holds data and {has}, but the metadata store has no bookie {ours.bookie_id}: {way_out} with "
        f"`bookie format`",
        directory=each.directory,
        bookie_id=ours.bookie_id,
    )


def _require_never_used(ours: Cookie, each: FoundDirectory) -> None:
    """Of a ledger directory that the store does not list."""
    if not each.holds_data:
        return
    raise CookieMismatchError(
        f"{_named(each)} holds entry logs, and bookie {ours.bookie_id} has never had it or has given it up as lost: "
        f"give an empty directory",
        directory=each.directory,
        bookie_id=ours.bookie_id,
    )


def _without_cookie(ours: Cookie, each: FoundDirectory) -> CookieMismatchError:
    state = "holds data without a cookie" if each.holds_data else "is empty"
    if each.role == ENTRIES:
        way_out = f"give it up, and go on with the other ones: --lost-ledger-dir {each.directory}"
    else:
        way_out = "start a new bookie under another id (docs/operations.md)"
    return CookieMismatchError(
        f"{_named(each)} {state}, but bookie {ours.bookie_id} has stored entries before: mount its disk; if the disk "
        f"is lost, {way_out}",
        directory=each.directory,
        bookie_id=ours.bookie_id,
    )


def _incomplete(ours: Cookie, each: FoundDirectory, missing: Path) -> CookieMismatchError:
    return CookieMismatchError(
        f"{missing} is missing in the {each.role} directory of bookie {ours.bookie_id}, which has had it since its "
        f"first start: restore it; if it is lost, start a new bookie under another id (docs/operations.md); `bookie "
        f"format` empties the directories of a bookie that never had entries",
        directory=each.directory,
        bookie_id=ours.bookie_id,
    )


def _named(each: FoundDirectory) -> str:
    return f"{JOURNAL if each.role == JOURNAL else LEDGER} directory {each.directory}"
