"""A cluster of four real bookies, ledgers on three of them each, and one that is lost."""

from __future__ import annotations

import asyncio
import json
import subprocess
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from bookie_server.tools.admin import init_cluster
from ledger.client import LedgerClient
from ledger.inspection.copies import Verdict
from ledger.inspection.copy_audit import CopyAudit
from ledger.model import BookieId, LedgerId, LedgerMetadata, QuorumSizes
from tests.helpers.ledger.appender import client_of
from tests.helpers.processes.bookie import BookieProcess, run_bookie

ENTRIES = 300


class FourBookies:
    """Four bookies, and ledgers on three of them each."""

    def __init__(self, directory: Path) -> None:
        self.uri = f"sqlite:///{directory}/meta.db"
        init_cluster(self.uri)
        self.bookies = [BookieProcess(self.uri, directory / f"bookie-{number}") for number in range(4)]
        for each in self.bookies:
            each.start()

    def stop(self) -> None:
        for each in self.bookies:
            each.stop()

    def run(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = run_bookie(*arguments, "--metadata", self.uri)
        assert done.returncode == code, (done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self.run(*arguments, "-o", "json", code=code).stdout)

    def ledgers(self) -> AbstractAsyncContextManager[LedgerClient]:
        return client_of(self.uri)

    def write(self, *, close: bool = True, entries: int = ENTRIES, repeats: int = 100) -> LedgerId:
        """A ledger whose entries have their number as payload, `repeats` times."""

        async def main() -> LedgerId:
            async with self.ledgers() as client:
                handle = await client.create(QuorumSizes(ensemble=3, write=3, ack=2))
                await asyncio.gather(*(handle.add(b"%d" % number * repeats) for number in range(entries)))
                if close:
                    await handle.close()
                return handle.ledger_id

        return asyncio.run(main())

    def metadata(self, ledger_id: LedgerId) -> LedgerMetadata:
        async def main() -> LedgerMetadata:
            async with self.ledgers() as client:
                return (await client.store.read_ledger(ledger_id)).value

        return asyncio.run(main())

    def is_complete(self, ledger_id: LedgerId) -> bool:
        """Whether each entry has its write quorum of intact, equal copies."""

        async def main() -> bool:
            async with self.ledgers() as client:
                metadata = (await client.store.read_ledger(ledger_id)).value
                audit = CopyAudit(client)
                found = await audit.audit(ledger_id, metadata, metadata.last_entry)
                await audit.close()
                return dict(found.verdicts) == {Verdict.COMPLETE: ENTRIES}

        return asyncio.run(main())

    def kill_member(self, *ledgers: LedgerId) -> BookieId:
        """A bookie that each of the ledgers has, for good; its id. Any two ledgers have one in common."""
        first, *others = [self.metadata(each).last_fragment.ensemble for each in ledgers]
        bookie_id = next(each for each in first if all(each in ensemble for ensemble in others))
        next(each for each in self.bookies if bookie_id.endswith(f":{each.port}")).kill()
        return bookie_id
