"""What `bookie placement` shows: the choice of bookies explained, and the ledgers whose copies span too few racks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar

from bookie_server.tools.cluster.limbo import limbo_of
from bookie_server.tools.store_session import with_store
from ledger.client import LedgerClient
from ledger.config import LedgerClientConfig
from ledger.core.placement import PlacementPolicy, choose_ensemble
from ledger.core.spread import zone_of
from ledger.errors import (
    LogStoreError,
    MetadataFormatError,
    NotEnoughBookiesError,
    RecordNotFoundError,
)
from ledger.metadata.known_bookies import is_member
from ledger.metadata.store import MetadataStore
from ledger.model import BookieId, BookieInfo, BookieSet, QuorumSizes, check_bookie_id
from ledger.placement.config import PlacementConfig
from ledger.printing import Row
from ledger.repair.errors import TooFewRacksError
from ledger.repair.placement_check import check_placement

T = TypeVar("T")

_TOLD_EVERY = 10_000


@dataclass(frozen=True, slots=True)
class Report:
    """A table, what is to be said about it, and the error that the command ends with."""

    title: str
    rows: list[Row]
    facts: Row
    error: LogStoreError | None = None

    def as_row(self) -> Row:
        """All of it as one JSON object."""
        return {**self.facts, self.title: self.rows}


def explained(
    metadata: str, config: PlacementConfig, quorum: QuorumSizes, exclude: Collection[str]
) -> Report:
    """Every registered bookie with its location, and whether it may be chosen; an ensemble as it could be now.

    Raises:
        RecordNotFoundError: a bookie to exclude is neither registered nor stopped, so its id is probably mistyped.
    """
    excluded = {check_bookie_id(each) for each in exclude}

    async def work(ledgers: LedgerClient) -> Report:
        await _require_members(ledgers.store, excluded)
        free, bookies, policy = await ledgers.ask_free_space(), ledgers.bookies(), ledgers.placement()
        in_limbo = await limbo_of(bookies)
        rows: list[Row] = [
            {
                "bookie": info.bookie_id,
                "location": _location(policy, info.bookie_id),
                "free_bytes": free.get(info.bookie_id),
                "may_be_chosen": _obstacle(policy, info, excluded, in_limbo[info.bookie_id]) or "yes",
            }
            for info in (*bookies.writable, *bookies.read_only)
        ]
        offered = BookieSet(tuple(each for each in bookies.writable if each.bookie_id not in excluded))
        facts: Row = {
            "racks_min": config.racks_min,
            "zones_min": config.zones_min,
            "enforced": config.enforce,
        }
        try:
            chosen = choose_ensemble(offered, quorum, ledgers.environment.rng, policy)
        except NotEnoughBookiesError as error:
            if len(offered.writable) < min(quorum.ensemble, len(bookies.writable)):
                error = _too_few_left(error, len(bookies.writable))
            return Report("bookies", rows, {**facts, "ensemble": None, "spread": None}, error)
        return Report("bookies", rows, {**facts, **_chosen(policy, chosen, quorum)})

    return _with_ledgers(metadata, config, work)


async def _require_members(store: MetadataStore, excluded: Collection[BookieId]) -> None:
    for bookie_id in sorted(excluded):
        if not await is_member(store, bookie_id):
            raise RecordNotFoundError(
                f"bookie {bookie_id}, which is to be excluded, is not registered and has no cookie: give ids as "
                "`bookie ls` prints them",
                key=bookie_id,
            )


def _too_few_left(error: NotEnoughBookiesError, writable: int) -> NotEnoughBookiesError:
    is_or_are = "is" if writable == 1 else "are"
    return NotEnoughBookiesError(
        f"the ensemble needs {error.needed} writable bookies and {writable} {is_or_are} registered, of which "
        f"{error.available} are left without those excluded",
        needed=error.needed,
        available=error.available,
    )


def _chosen(policy: PlacementPolicy, ensemble: Sequence[BookieId], quorum: QuorumSizes) -> Row:
    return {"ensemble": list(ensemble), "spread": policy.adherence(ensemble, quorum).value}


def _location(policy: PlacementPolicy, bookie_id: BookieId) -> str | None:
    location = policy.locations.get(bookie_id)
    return None if location is None else "/" + "/".join(location)


def _obstacle(
    policy: PlacementPolicy, info: BookieInfo, excluded: Collection[BookieId], in_limbo: bool | None
) -> str:
    """Why the bookie is not chosen; empty if it may be."""
    if info.bookie_id in excluded:
        return "no: excluded"
    if in_limbo:
        return "no: in limbo"
    if info.read_only:
        return "no: read-only"
    if not policy.usable([info.bookie_id]):
        return "no: its location is not known"
    return ""


def narrow_ledgers(metadata: str, config: PlacementConfig, say: Callable[[str], None]) -> Report:
    """One row for each fragment whose copies span less than is asked for, and counts of ledgers."""

    def tell(count: int) -> None:
        if count % _TOLD_EVERY == 0:
            say(f"checked {count:,} ledgers")

    async def work(ledgers: LedgerClient) -> Report:
        found, policy = await check_placement(ledgers, tell), ledgers.placement()
        rows: list[Row] = []
        for each in found.narrow:
            known = {policy.locations[member] for member in each.ensemble if member in policy.locations}
            rows.append(
                {
                    "ledger": each.ledger_id,
                    "first_entry": each.first_entry,
                    "ensemble": list(each.ensemble),
                    "racks": len(known),
                    "zones": len({zone_of(location) for location in known}),
                }
            )
        facts: Row = {
            "checked_ledgers": found.ledgers,
            "narrow_ledgers": found.narrow_ledgers,
            "unknown_ledgers": found.unknown,
            "unreadable_ledgers": found.unreadable,
        }
        error = _too_few_racks(found.narrow_ledgers, config) or _unreadable(found.unreadable)
        return Report("narrow", rows, facts, error)

    return _with_ledgers(metadata, config, work)


def _too_few_racks(ledgers: int, config: PlacementConfig) -> TooFewRacksError | None:
    if not ledgers:
        return None
    return TooFewRacksError(
        f"{ledgers} {'ledger has' if ledgers == 1 else 'ledgers have'} write quorums in fewer than {config.racks_min} "
        f"racks or {config.zones_min} zones: nothing moves them, unless one of their bookies is recovered",
        ledgers=ledgers,
    )


def _unreadable(ledgers: int) -> MetadataFormatError | None:
    if not ledgers:
        return None
    return MetadataFormatError(
        f"the metadata of {ledgers} {'ledger' if ledgers == 1 else 'ledgers'} cannot be read, as logged: where the "
        "copies are is unknown"
    )


def _with_ledgers(metadata: str, config: PlacementConfig, work: Callable[[LedgerClient], Awaitable[T]]) -> T:
    async def run(store: MetadataStore) -> T:
        ledgers = LedgerClient(store, config=LedgerClientConfig(placement=config))
        try:
            await ledgers.start()
            return await work(ledgers)
        finally:
            await ledgers.close()

    return with_store(metadata, run)
