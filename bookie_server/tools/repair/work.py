"""What the verbs of repair do: one client of the cluster for the length of a command."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar, cast

from bookie_server.tools.repair.display import Display
from bookie_server.tools.store_session import with_store
from ledger.metadata.store import MetadataStore
from ledger.model import LedgerId, check_bookie_id
from ledger.printing import Row, counted
from ledger.repair.client import RepairClient, connected
from ledger.repair.config import RepairConfig
from ledger.repair.draining import Drained
from ledger.repair.errors import CopiesMissingError, StillNeededError
from ledger.repair.outcome import LedgerOutcome, sentence
from ledger.repair.progress import CheckProgress, DrainProgress

T = TypeVar("T")
Say = Callable[[str], None]

MARK_COLUMNS = ("ledger", "missing", "marked", "repaired_by")
FINDING_COLUMNS = ("ledger", "missing", "finding")


def marked_ledgers(metadata: str) -> list[Row]:
    """One row for each marked ledger."""

    async def read(store: MetadataStore) -> list[Row]:
        return [
            {
                "ledger": mark.ledger_id,
                "missing": list(mark.missing),
                "marked_ms": mark.marked_ms,
                "repaired_by": await store.repair.lock_holder(mark.ledger_id),
            }
            async for mark in store.repair.marks()
        ]

    return with_store(metadata, read)


def with_progress(marked: Sequence[Row], now: Mapping[int, Row]) -> list[Row]:
    """The rows with what a worker has copied of each ledger; None where it has not begun."""
    unknown: Row = {"began_ms": None, "entries_copied": None, "entries_to_copy": None, "bytes_copied": None}
    return [{**row, **now.get(cast(int, row["ledger"]), unknown)} for row in marked]


def recovered(
    metadata: str,
    bookie: str,
    config: RepairConfig,
    *,
    only: int | None,
    dry_run: bool,
    skip_open: bool,
    display: Display,
) -> Row:
    """Copy what the bookie had, or only what it had of the ledger `only`.

    StillNeededError: ledgers depend on it at the end.
    """
    bookie_id = check_bookie_id(bookie)

    async def work(client: RepairClient) -> Row:
        progress = DrainProgress()
        async with display.following(progress):
            drained = await client.recover(
                bookie_id,
                only=None if only is None else LedgerId(only),
                dry_run=dry_run,
                skip_open=skip_open,
                on_ledger=_teller(display.say),
                progress=progress,
            )
        return _facts(drained, dry_run=dry_run)

    return _with_client(metadata, config, work)


def decommissioned(metadata: str, bookie: str, config: RepairConfig, *, display: Display) -> Row:
    """Remove the bookie from the cluster. StillNeededError if ledgers depend on it at the end."""
    bookie_id = check_bookie_id(bookie)

    async def work(client: RepairClient) -> Row:
        progress = DrainProgress()
        async with display.following(progress):
            drained = await client.decommission(bookie_id, on_ledger=_teller(display.say), progress=progress)
        return _facts(drained, dry_run=False)

    return _with_client(metadata, config, work)


def checked(metadata: str, *, full: bool, mark: bool, display: Display) -> tuple[int, list[Row]]:
    """How many ledgers were checked, and a row for each that lacks copies, or of which not all is known."""

    async def work(client: RepairClient) -> tuple[int, list[Row]]:
        progress = CheckProgress()
        async with display.following(progress):
            rows = findings(await client.check_copies(full=full, mark=mark, progress=progress))
        return progress.ledgers, rows

    return _with_client(metadata, RepairConfig(), work)


def findings(outcomes: Iterable[LedgerOutcome]) -> list[Row]:
    """Columns FINDING_COLUMNS; no bookie is missing where not all is known."""
    return [
        {
            "ledger": outcome.ledger_id,
            "missing": sorted(outcome.missing),
            "finding": "; ".join(outcome.left) or "open, and a member of its ensemble is not registered",
        }
        for outcome in outcomes
    ]


def require_none(rows: Sequence[Row], *, marked: bool) -> None:
    """CopiesMissingError if there are findings. Only ledgers that lack copies are marked, unknown ones are not."""
    if not rows:
        return
    lacking = sum(bool(row["missing"]) for row in rows)
    unknown = len(rows) - lacking
    parts = []
    if lacking:
        parts.append(
            f"{lacking} {'ledger lacks' if lacking == 1 else 'ledgers lack'} copies: "
            + ("marked for the workers" if marked else "mark them for the workers with --mark")
        )
    if unknown:
        parts.append(
            f"it is unknown whether {unknown} {'other ' if lacking else ''}"
            + (
                "ledger lacks copies: see its finding, and check again"
                if unknown == 1
                else "ledgers lack copies: see their findings, and check again"
            )
        )
    raise CopiesMissingError("; ".join(parts), ledgers=lacking, unknown=unknown)


def settings(metadata: str, *, enable: bool | None, lost_bookie_delay_s: int | None) -> Row:
    """The cluster's settings, after the changes."""

    async def work(store: MetadataStore) -> Row:
        if enable is not None:
            await store.repair.set_enabled(enable)
        if lost_bookie_delay_s is not None:
            await store.repair.set_lost_bookie_delay_s(lost_bookie_delay_s)
        delay = await store.repair.lost_bookie_delay_s()
        return {
            "enabled": await store.repair.enabled(),
            "lost_bookie_delay_s": None if delay is None else delay.value,
            "auditor": await store.repair.auditor(),
            "all_checked_ms": await store.repair.all_checked_ms(),
            "placement_checked_ms": await store.repair.placement_checked_ms(),
            "marked_ledgers": len([mark async for mark in store.repair.marks()]),
        }

    return with_store(metadata, work)


def audit_triggered(metadata: str) -> str:
    """Set the lost-bookie delay to what it is, as Apache's `triggeraudit`; one line that says who audits now."""

    async def work(store: MetadataStore) -> str:
        auditor, delay = await store.repair.auditor(), await store.repair.lost_bookie_delay_s()
        if delay is not None:
            await store.repair.set_lost_bookie_delay_s(delay.value)
        if auditor is None or delay is None:
            return "no auditor runs now; it audits when `bookie autorecovery` starts"
        if not await store.repair.enabled():
            return f"repair is switched off; auditor {auditor} audits when `bookie repair-settings --enable` ends that"
        return f"auditor {auditor} is asked to audit now"

    return with_store(metadata, work)


def _teller(say: Say) -> Callable[[int, int, LedgerOutcome], None]:
    def tell(done: int, known: int, outcome: LedgerOutcome) -> None:
        say(f"{done:,} of {known:,}: {sentence(outcome)}")

    return tell


def _facts(drained: Drained, *, dry_run: bool) -> Row:
    if drained.left and not dry_run:
        parts = []
        if needed := len(drained.left) - drained.unreadable:
            parts.append(
                f"{needed} of {drained.ledgers} ledgers still depend on bookie {drained.bookie_id}, as listed: start "
                "the bookies that are missing, or more of them, and run this again"
            )
        if drained.unreadable:
            parts.append(
                f"it is unknown whether {counted(drained.unreadable, 'ledger')} whose metadata is damaged "
                f"{'depends' if drained.unreadable == 1 else 'depend'} on bookie {drained.bookie_id}, as listed: "
                "restore it, and run this again"
            )
        raise StillNeededError(
            "; ".join(parts),
            bookie_id=drained.bookie_id,
            ledgers=len(drained.left),
        )
    return {
        "bookie": drained.bookie_id,
        "ledgers": drained.ledgers,
        "entries_copied": drained.entries,
        "bytes_copied": drained.payload_bytes,
    }


def _with_client(metadata: str, config: RepairConfig, work: Callable[[RepairClient], Awaitable[T]]) -> T:
    async def run(store: MetadataStore) -> T:
        async with connected(store, config) as client:
            return await work(client)

    return with_store(metadata, run)
