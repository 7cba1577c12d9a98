"""Which bookies a ledger gets."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from ledger.core.placement import choose_ensemble, choose_replacements
from ledger.errors import NotEnoughBookiesError
from ledger.model import BookieId, BookieInfo, BookieSet, address_in


def infos(*names: str) -> tuple[BookieInfo, ...]:
    return tuple(BookieInfo(bookie_id=BookieId(name), host="h", port=1) for name in names)


BOOKIES = BookieSet(writable=infos("a", "b", "c", "d", "e"), read_only=infos("r"))


def test_every_writable_bookie_is_chosen_equally_often_and_never_twice() -> None:
    chance, counted = Random(1), Counter[str]()
    for _ in range(2000):
        ensemble = choose_ensemble(BOOKIES, 3, chance)
        assert len(set(ensemble)) == 3
        counted.update(ensemble)
    assert set(counted) == {"a", "b", "c", "d", "e"}
    assert all(1080 < times < 1320 for times in counted.values())


def test_just_enough_bookies_are_enough() -> None:
    assert sorted(choose_ensemble(BOOKIES, 5, Random(1))) == ["a", "b", "c", "d", "e"]


def test_read_only_bookies_do_not_count() -> None:
    with pytest.raises(
        NotEnoughBookiesError, match="needs 6 writable bookies and 5 are registered"
    ) as caught:
        choose_ensemble(BOOKIES, 6, Random(1))
    assert (caught.value.needed, caught.value.available) == (6, 5)


def test_replacements_are_neither_members_nor_avoided() -> None:
    for seed in range(50):
        found = choose_replacements(BOOKIES, ["a", "b", "c"], {"d"}, 2, Random(seed))  # type: ignore[list-item,arg-type]
        assert found == ["e"]
    assert choose_replacements(BOOKIES, ["a", "b", "c"], {"d", "e"}, 1, Random(1)) == []  # type: ignore[list-item,arg-type]


def test_the_same_seed_places_alike_however_bookies_are_listed() -> None:
    turned = BookieSet(writable=tuple(reversed(BOOKIES.writable)))
    assert choose_ensemble(BOOKIES, 3, Random(9)) == choose_ensemble(turned, 3, Random(9))


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("10.0.0.7:3181", "10.0.0.7", 3181), ("bookie.example:1", "bookie.example", 1)],
)
def test_an_id_may_give_the_address_of_an_unregistered_bookie(text: str, host: str, port: int) -> None:
    info = address_in(BookieId(text))
    assert info is not None
    assert (info.host, info.port) == (host, port)


@pytest.mark.parametrize("text", ["bookie-7", "host:", ":3181", "host:port", "host:65536", "host:٣"])
def test_other_ids_give_no_address(text: str) -> None:
    assert address_in(BookieId(text)) is None
