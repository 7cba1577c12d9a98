"""Copies are looked for where fresh metadata has them, however old the metadata that an audit begins with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ledger.errors import LedgerNotFoundError
from ledger.inspection.copies import CopyState, LedgerCopies, Verdict
from ledger.inspection.copy_audit import CopyAudit
from ledger.model import EntryId, Fragment, LedgerId, LedgerMetadata, QuorumSizes
from tests.helpers.ledger.scripted_bookies import Cluster, ScriptedBookie, scripted_cluster

ENTRIES = 4


async def closed_ledger(cluster: Cluster) -> tuple[LedgerId, LedgerMetadata, list[ScriptedBookie]]:
    """A ledger of ENTRIES entries, its metadata and the bookies that have it."""
    handle = await cluster.client.create(QuorumSizes())
    for number in range(ENTRIES):
        await handle.add(b"%d" % number)
    await handle.close()
    metadata = (await cluster.store.read_ledger(handle.ledger_id)).value
    return handle.ledger_id, metadata, cluster.ensemble(handle)


async def write_fragments(cluster: Cluster, ledger_id: LedgerId, *fragments: Fragment) -> None:
    found = await cluster.store.read_ledger(ledger_id)
    await cluster.store.write_ledger(ledger_id, replace(found.value, fragments=fragments), found.version)


async def audited(cluster: Cluster, ledger_id: LedgerId, metadata: LedgerMetadata) -> LedgerCopies:
    audit = CopyAudit(cluster.client)
    counts: list[int] = []
    try:
        found = await audit.audit(ledger_id, metadata, ENTRIES - 1, counts.append)
    finally:
        await audit.close()
    assert sum(counts) == found.entries == ENTRIES
    return found


@pytest.mark.parametrize("old_copies", ["away", "removed"])
async def test_copies_that_repair_has_moved_are_found_where_they_are_now(old_copies: str) -> None:
    async with scripted_cluster(6) as cluster:
        ledger_id, metadata, old = await closed_ledger(cluster)
        new = [bookie for bookie in cluster.bookies if bookie not in old]
        for source, target in zip(old, new, strict=True):
            target.entries.update(source.entries)
            source.entries.clear()
            if old_copies == "away":
                source.go_away()
        moved = Fragment(EntryId(0), tuple(bookie.bookie_id for bookie in new))
        await write_fragments(cluster, ledger_id, moved)
        found = await audited(cluster, ledger_id, metadata)
        assert found.verdicts == {Verdict.COMPLETE: ENTRIES} and not found.findings


async def test_entries_after_a_change_of_the_ensemble_are_found_on_the_new_members() -> None:
    """The writer replaced a member after the metadata was read: the entries from then on are not on the old one."""
    async with scripted_cluster(4) as cluster:
        ledger_id, metadata, old = await closed_ledger(cluster)
        [new] = [bookie for bookie in cluster.bookies if bookie not in old]
        for entry_id in (2, 3):
            new.entries[ledger_id, entry_id] = old[0].entries.pop((ledger_id, entry_id))
        later = (new.bookie_id, *metadata.last_fragment.ensemble[1:])
        await write_fragments(cluster, ledger_id, *metadata.fragments, Fragment(EntryId(2), later))
        found = await audited(cluster, ledger_id, metadata)
        assert found.verdicts == {Verdict.COMPLETE: ENTRIES} and not found.findings


async def test_copies_that_are_missing_by_fresh_metadata_are_reported() -> None:
    async with scripted_cluster() as cluster:
        ledger_id, metadata, members = await closed_ledger(cluster)
        for bookie in members[:2]:
            bookie.entries.clear()
        found = await audited(cluster, ledger_id, metadata)
        assert found.verdicts == {Verdict.BELOW_ACK_QUORUM: ENTRIES}
        assert found.copies == {CopyState.MISSING: 2 * ENTRIES, CopyState.INTACT: ENTRIES}


async def test_a_ledger_that_is_deleted_has_no_copies_to_report() -> None:
    async with scripted_cluster() as cluster:
        ledger_id, metadata, members = await closed_ledger(cluster)
        await cluster.client.delete(ledger_id)
        for bookie in members:
            bookie.entries.clear()
        with pytest.raises(LedgerNotFoundError):
            await audited(cluster, ledger_id, metadata)
