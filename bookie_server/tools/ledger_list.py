"""`bookie list-ledgers`: the ledgers of a cluster as rows to print, read from the metadata store alone."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator

from ledger import whole_loop
from ledger.errors import LedgerNotFoundError, MetadataFormatError
from ledger.metadata.drivers import open_store
from ledger.metadata.known_bookies import require_known
from ledger.metadata.store import MetadataStore
from ledger.model import BookieId, LedgerId, LedgerMetadata, check_bookie_id
from ledger.printing import Row, with_times

_AT_ONCE = 200


def ledger_list(metadata: str, *, with_metadata: bool, bookie: str | None) -> Generator[Row, None, None]:
    """One row for each ledger, ascending by id, read while the rows are taken.

    `with_metadata`: with its state, ensembles and end. `bookie`: only those of which a fragment names this bookie.
    A ledger whose metadata is damaged is shown with the reason.

    Raises:
        InvalidNameError: `bookie` is not a bookie id.
        RecordNotFoundError: no ledger names `bookie`, and the cluster does not know it either.
    """
    member = None if bookie is None else check_bookie_id(bookie)
    with whole_loop.runner() as runner:
        store = runner.run(open_store(metadata))
        rows = _rows(store, with_metadata=with_metadata, member=member)
        found = False
        try:
            while (row := runner.run(anext(rows, None))) is not None:
                found = True
                yield row
            if member is not None and not found:
                runner.run(require_known(store, member))
        finally:
            runner.run(rows.aclose())
            runner.run(store.close())


async def _rows(
    store: MetadataStore, *, with_metadata: bool, member: BookieId | None
) -> AsyncGenerator[Row, None]:
    if not with_metadata and member is None:
        async for ledger_id in store.ledger_ids():
            yield {"ledger": ledger_id}
        return
    part: list[LedgerId] = []
    async for ledger_id in store.ledger_ids():
        part.append(ledger_id)
        if len(part) == _AT_ONCE:
            for row in await _read(store, part, with_metadata=with_metadata, member=member):
                yield row
            part = []
    for row in await _read(store, part, with_metadata=with_metadata, member=member):
        yield row


async def _read(
    store: MetadataStore, ledger_ids: list[LedgerId], *, with_metadata: bool, member: BookieId | None
) -> list[Row]:
    rows: list[Row] = []
    glanced = await store.glance_at_ledgers(ledger_ids) if ledger_ids else {}
    for ledger_id in ledger_ids:
        try:
            found = glanced.get(ledger_id) or await store.read_ledger(ledger_id)
        except LedgerNotFoundError:
            continue  # deleted in the meantime
        except MetadataFormatError as error:
            rows.append({"ledger": ledger_id, "damaged": str(error)})
            continue
        if member is None or member in set(found.value.members()):
            rows.append(_facts(ledger_id, found.value) if with_metadata else {"ledger": ledger_id})
    return rows


def _facts(ledger_id: LedgerId, metadata: LedgerMetadata) -> Row:
    quorum = metadata.quorum
    return {
        "ledger": ledger_id,
        "state": metadata.state.name,
        "ensemble": quorum.ensemble,
        "write": quorum.write,
        "ack": quorum.ack,
        "last_entry": metadata.last_entry if metadata.closed else None,
        "bytes": metadata.length if metadata.closed else None,
        "created_ms": metadata.created_ms,
        "fragments": [
            {"first_entry": each.first_entry, "ensemble": list(each.ensemble)} for each in metadata.fragments
        ],
    }


def text_row(row: Row) -> Row:
    """The row for text: each fragment as FIRST_ENTRY:BOOKIE,BOOKIE, and times in UTC."""
    fragments = row.get("fragments")
    if not isinstance(fragments, list):
        return row
    words = [f"{each['first_entry']}:{','.join(each['ensemble'])}" for each in fragments]
    return with_times({**row, "fragments": " ".join(words)})
