"""A snapshot answers from what it holds, and a change makes another one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dlog.admin import LogInfo
from dlog.cache.snapshot import Changes, Disappeared, Endpoint, MetadataSnapshot
from dlog.metadata.log_ref import LogRef
from dlog.model import LogMetadata, LogName
from ledger.errors import ConfigurationError, InvalidNameError
from ledger.model import (
    BookieId,
    BookieInfo,
    BookieSet,
    EntryId,
    Fragment,
    LedgerId,
    LedgerMetadata,
    QuorumSizes,
    Versioned,
)

B1, B2, B3, B4 = (BookieId(f"b{number}") for number in range(1, 5))
ORDERS, OTHERS = LogName(namespace="default", name="orders"), LogName(namespace="default", name="others")
EMPTY = MetadataSnapshot(cluster_id="c", layout=b"l", namespace="default")


def registered(*ids: BookieId, read_only: tuple[BookieId, ...] = ()) -> BookieSet:
    def infos(of: tuple[BookieId, ...]) -> tuple[BookieInfo, ...]:
        return tuple(BookieInfo(bookie_id=each, host=each, port=1) for each in of)

    return BookieSet(writable=infos(ids), read_only=infos(read_only))


def log(name: LogName, version: int, uuid: str = "u") -> LogInfo:
    return LogInfo(LogRef(name, uuid), LogMetadata(log_uuid=uuid, instance_id="c", nonce=version), version)


def ledger(version: int, *ensembles: tuple[BookieId, ...]) -> Versioned[LedgerMetadata]:
    fragments = tuple(Fragment(EntryId(10 * at), each) for at, each in enumerate(ensembles))
    return Versioned(
        LedgerMetadata(quorum=QuorumSizes(ensemble=3, write=2, ack=1), fragments=fragments), version
    )


def test_it_contains_what_it_was_told() -> None:
    snapshot, _ = EMPTY.updated(
        Changes(
            bookies=registered(B1, read_only=(B2,)),
            logs={ORDERS: log(ORDERS, 1)},
            ledgers={LedgerId(7): ledger(0, (B1, B2, B3))},
        )
    )
    assert snapshot.contains_log(ORDERS) and not snapshot.contains_log(OTHERS)
    assert snapshot.contains_ledger(LedgerId(7)) and not snapshot.contains_ledger(LedgerId(8))
    assert snapshot.contains_bookie(B1) and snapshot.contains_bookie(B2) and not snapshot.contains_bookie(B3)
    assert snapshot.log(ORDERS) == log(ORDERS, 1) and snapshot.log(OTHERS) is None
    assert snapshot.ledger(LedgerId(7)) == ledger(0, (B1, B2, B3)).value
    assert snapshot.ledger(LedgerId(8)) is None
    assert not EMPTY.contains_log(ORDERS)


def test_the_name_of_a_log_is_one_of_the_namespace() -> None:
    snapshot, _ = EMPTY.updated(Changes(logs={ORDERS: log(ORDERS, 1)}))
    assert snapshot.contains_log("orders") and snapshot.log("orders") == log(ORDERS, 1)
    assert not replace(snapshot, namespace="other").contains_log("orders")
    assert replace(snapshot, namespace="other").contains_log(ORDERS)
    with pytest.raises(InvalidNameError):
        snapshot.contains_log("default/orders")


@pytest.mark.parametrize(
    ("argument", "ask"),
    [
        ("log", lambda snapshot: snapshot.contains_log(7)),
        ("log", lambda snapshot: snapshot.log(None)),
        ("ledger_id", lambda snapshot: snapshot.contains_ledger("7")),
        ("ledger_id", lambda snapshot: snapshot.ledger("7")),
        ("ledger_id", lambda snapshot: snapshot.endpoints("7", 0)),
        ("entry_id", lambda snapshot: snapshot.endpoints(LedgerId(7), -5)),
        ("entry_id", lambda snapshot: snapshot.endpoints(LedgerId(7), "0")),
        ("bookie_id", lambda snapshot: snapshot.contains_bookie(7)),
    ],
)
def test_a_wrong_argument_is_named(argument: str, ask: Callable[[Any], object]) -> None:
    snapshot, _ = EMPTY.updated(Changes(ledgers={LedgerId(7): ledger(0, (B1, B2, B3))}))
    with pytest.raises(ConfigurationError, match=f"^{argument} must "):
        ask(snapshot)


def test_endpoints_are_the_write_set_and_an_unregistered_bookie_has_none() -> None:
    snapshot, _ = EMPTY.updated(
        Changes(
            bookies=registered(B1, B4),
            ledgers={LedgerId(7): ledger(1, (B1, B2, B3), (B1, B4, B3))},
        )
    )
    first, fourth = (snapshot.bookies.find(each) for each in (B1, B4))
    assert snapshot.endpoints(LedgerId(7), 0) == (Endpoint(B1, first), Endpoint(B2, None))
    assert snapshot.endpoints(LedgerId(7), 2) == (Endpoint(B3, None), Endpoint(B1, first))
    assert snapshot.endpoints(LedgerId(7), 10) == (Endpoint(B4, fourth), Endpoint(B3, None))
    assert snapshot.endpoints(LedgerId(8), 0) is None


def test_an_update_reports_what_disappeared() -> None:
    before, gone = EMPTY.updated(
        Changes(
            bookies=registered(B1, B2, B3),
            logs={ORDERS: log(ORDERS, 1), OTHERS: log(OTHERS, 1)},
            ledgers={LedgerId(7): ledger(0, (B1, B2, B3)), LedgerId(8): ledger(0, (B1, B2, B3))},
        )
    )
    assert not gone
    after, gone = before.updated(
        Changes(bookies=registered(B1, read_only=(B2,)), logs={ORDERS: None}, ledgers={LedgerId(8): None})
    )
    assert gone == Disappeared(
        bookies=frozenset({B3}), logs=frozenset({ORDERS}), ledgers=frozenset({LedgerId(8)})
    )
    assert set(after.logs) == {OTHERS} and set(after.ledgers) == {7}
    assert set(before.logs) == {ORDERS, OTHERS} and set(before.ledgers) == {7, 8}
    assert not after.updated(Changes(logs={ORDERS: None}))[1]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_overtaken_read_changes_nothing(version: int) -> None:
    before, _ = EMPTY.updated(
        Changes(logs={ORDERS: log(ORDERS, 1)}, ledgers={LedgerId(7): ledger(1, (B1, B2, B3))})
    )
    after, _ = before.updated(
        Changes(logs={ORDERS: log(ORDERS, version)}, ledgers={LedgerId(7): ledger(version, (B1, B2, B4))})
    )
    found = after.log(ORDERS), after.ledgers[LedgerId(7)]
    assert [each and each.version for each in found] == [max(1, version)] * 2


def test_versions_of_another_incarnation_do_not_compare() -> None:
    before, _ = EMPTY.updated(Changes(logs={ORDERS: log(ORDERS, 9)}))
    after, _ = before.updated(Changes(logs={ORDERS: log(ORDERS, 0, uuid="v")}))
    assert after.logs[ORDERS].ref.log_uuid == "v"


def test_it_cannot_be_changed() -> None:
    snapshot, _ = EMPTY.updated(Changes(logs={ORDERS: log(ORDERS, 1)}))
    with pytest.raises(TypeError):
        snapshot.logs[OTHERS] = log(OTHERS, 1)  # type: ignore[index]  # that is the point
    assert replace(snapshot) == snapshot
