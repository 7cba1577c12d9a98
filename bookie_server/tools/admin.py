"""What the `bookie` command asks of a cluster's metadata store and of running bookies."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Generator
from typing import TypeVar

from bookie_server.disk.system_disk import SystemDisk
from bookie_server.storage.config import StorageConfig
from bookie_server.tools.admin_connection import linked
from bookie_server.tools.cluster.limbo import bookies_and_limbo, is_in_limbo
from bookie_server.tools.formatting import (
    give_up,
    identity_of,
    is_of_cluster,
    named,
    require_identified,
    require_unused,
)
from bookie_server.tools.live_ledger import live_rows
from bookie_server.tools.stopped_bookie import exclusively
from bookie_server.tools.store_session import with_store
from ledger import whole_loop
from ledger.errors import BookieUnavailableError, ConfigurationError
from ledger.metadata.drivers import open_store
from ledger.metadata.store import MetadataStore
from ledger.model import LedgerId
from ledger.printing import Row
from ledger.wire.messages import (
    BookieInfoRequest,
    BookieInfoResponse,
    BookieInfoWanted,
    Operation,
)
from ledger.wire.status import Status

T = TypeVar("T")

PORT = re.compile("[0-9]{1,5}")
ANSWER_BYTES_MAX = 64 * 1024
BOOKIE_COLUMNS = ("bookie", "address", "state", "in_limbo")


def init_cluster(metadata: str) -> str:
    """Create the cluster; one line that says so. AlreadyExistsError if there is one."""

    async def init(store: MetadataStore) -> str:
        await store.init_cluster()
        return f"cluster {await store.instance_id()} is ready in {store.uri}"

    return with_store(metadata, init)


def registered_bookies(metadata: str) -> list[Row]:
    """Every registered bookie with its address and state, and whether it is in limbo, None if it does not say.

    One whose registration is damaged has no address.
    """

    async def read(store: MetadataStore) -> list[Row]:
        bookies, in_limbo = await bookies_and_limbo(store)
        rows: list[Row] = [
            {
                "bookie": each.bookie_id,
                "address": f"{each.host}:{each.port}",
                "state": "read-only" if each.read_only else "writable",
                "in_limbo": in_limbo[each.bookie_id],
            }
            for each in (*bookies.writable, *bookies.read_only)
        ]
        rows += [
            {"bookie": each.bookie_id, "address": None, "state": "damaged", "in_limbo": None}
            for each in bookies.damaged
        ]
        return rows

    return with_store(metadata, read)


def bookie_info(address: str) -> Row:
    """Size and free space of a running bookie's disks in bytes, and whether it is in limbo, None if it does not say."""
    host, _, port = address.rpartition(":")
    if not host or not PORT.fullmatch(port) or not 1 <= int(port) <= 65535:
        raise ConfigurationError(
            f"address {address!r} is not HOST:PORT with a port in 1..65535, for example 127.0.0.1:3181"
        )
    answer, in_limbo = whole_loop.run(_ask_info(host.strip("[]"), int(port)))
    total, free = answer.total_bytes or 0, answer.free_bytes or 0
    return {
        "bookie": address,
        "in_limbo": in_limbo,
        "total_bytes": total,
        "free_bytes": free,
        "used_bytes": total - free,
    }


async def _ask_info(host: str, port: int) -> tuple[BookieInfoResponse, bool | None]:
    wanted = BookieInfoRequest(requested=BookieInfoWanted.TOTAL_BYTES | BookieInfoWanted.FREE_BYTES)
    async with linked(host, port, ANSWER_BYTES_MAX) as link:
        status, answer = await link.ask(Operation.GET_BOOKIE_INFO, wanted, BookieInfoResponse)
        in_limbo = await is_in_limbo(link)
    if status is not Status.EOK or answer is None:
        raise BookieUnavailableError(f"the bookie at {host}:{port} answered {status.name}")
    return answer, in_limbo


def live_ledger_rows(
    metadata: str, ledger_id: int, only: str | None, first: int, last: int
) -> Generator[Row, None, None]:
    """One row for each entry of the ledger as running bookies hold it, read while the rows are taken."""
    with whole_loop.runner() as runner:
        store = runner.run(_opened(metadata))
        try:
            rows = live_rows(store, LedgerId(ledger_id), only, first, last)
            try:
                while (row := runner.run(_next(rows))) is not None:
                    yield row
            finally:
                runner.run(rows.aclose())
        finally:
            runner.run(store.close())


async def _opened(metadata: str) -> MetadataStore:
    return await open_store(metadata)


async def _next(rows: AsyncIterator[Row]) -> Row | None:
    return await anext(rows, None)


def require_unused_directories(config: StorageConfig) -> None:
    """What `format_directories` refuses before it asks the store, for a question that is asked first."""
    with exclusively(SystemDisk(), config):
        pass


def format_directories(metadata: str, config: StorageConfig, *, force: bool) -> str:
    """Give up what a stopped bookie stores; one line that says so."""
    disk = SystemDisk()

    async def give_all_up(store: MetadataStore) -> str:
        with exclusively(disk, config):
            cookie, bookie_id = identity_of(disk, config), None
            if not force:
                require_identified(disk, config)
            if cookie is not None and await is_of_cluster(store, cookie, force=force):
                bookie_id = cookie.bookie_id
                await require_unused(store, bookie_id, force=force)
            left = await give_up(store, disk, config, bookie_id)
        whose = "what bookies make" if cookie is None else cookie.bookie_id
        where = " and ".join(map(str, (config.journal_directory, *config.ledger_directories)))
        done = f"deleted {whose} in {where}"
        return f"{done}; left as it is, since no bookie made it: {named([*map(str, left)])}" if left else done

    return with_store(metadata, give_all_up)
