"""`bookie recover` and `decommission` refuse a bookie that runs, also one of which only that is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger.client import LedgerClient
from ledger.errors import RecordNotFoundError
from ledger.metadata.drivers import open_store
from ledger.model import BookieId, BookieInfo
from ledger.repair.config import RepairConfig
from ledger.repair.draining import Draining
from ledger.repair.errors import BookieRunningError

BOOKIE = BookieId("127.0.0.1:3181")
NO_PORT = 70000


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("verb", ["recover", "decommission"])
async def test_a_bookie_with_a_damaged_registration_is_refused_as_running(
    tmp_path: Path, verb: str, read_only: bool
) -> None:
    """It takes appends of clients that know its address, and its cookie is what it may start again with."""
    store = await open_store(f"sqlite:///{tmp_path}/meta.db")
    await store.init_cluster()
    await store.write_cookie(BOOKIE, b"5\none", None)
    info = BookieInfo(bookie_id=BOOKIE, host="127.0.0.1", port=NO_PORT, read_only=read_only)
    registration = await store.register_bookie(info)
    ledgers = LedgerClient(store)
    await ledgers.start()
    draining = Draining(ledgers, BOOKIE, RepairConfig())
    try:
        with pytest.raises(BookieRunningError, match="stop it first") as refused:
            await getattr(draining, verb)()
        assert refused.value.bookie_id == BOOKIE
        assert (await store.read_cookie(BOOKIE)).value == b"5\none"
        await registration.close()
        await getattr(draining, verb)()
        if verb == "decommission":
            with pytest.raises(RecordNotFoundError):
                await store.read_cookie(BOOKIE)
    finally:
        await draining.close()
        await ledgers.close()
        await store.close()
