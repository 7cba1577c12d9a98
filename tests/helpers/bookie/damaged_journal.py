"""A bookie process whose journal is damaged after it was killed."""

from __future__ import annotations

from ledger.wire.status import Status
from tests.helpers.bookie.entries import add, add_answer, entry
from tests.helpers.bookie.raw_client import RawClient
from tests.helpers.processes.bookie import BookieProcess


def damage_the_middle_of_the_journal(bookie: BookieProcess) -> None:
    """Flip a byte of an entry that was acknowledged long before the last one."""
    [journal] = (bookie.data / "journal").glob("*.journal")
    content = bytearray(journal.read_bytes())
    place = content.find(entry(1, 3))
    assert place > 0
    content[place + 30] ^= 0xFF
    journal.write_bytes(content)


def killed_after_ten_adds(bookie: BookieProcess) -> None:
    with RawClient(bookie.port) as client:
        for entry_id in range(10):
            assert add_answer(client.ask(add(1, entry_id))).status is Status.EOK
    bookie.kill()
