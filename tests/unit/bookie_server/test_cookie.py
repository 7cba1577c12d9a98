"""Every way in which a disk can be the wrong one refuses to start and names the directory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bookie_server.cookie import FoundDirectory, Verdict, judge, own_cookie
from bookie_server.errors import CookieMismatchError
from ledger.metadata.format.cookie import Cookie
from ledger.model import BookieId

JOURNAL, LEDGERS = Path("/disk1/journal"), Path("/disk2/ledgers")
OURS = own_cookie("127.0.0.1:3181", JOURNAL, LEDGERS, "cluster-1")


def found(
    directory: Path = JOURNAL, cookie: Cookie | None = OURS, *, holds_data: bool = True
) -> FoundDirectory:
    role = {JOURNAL: "journal", LEDGERS: "ledger"}[directory]
    return FoundDirectory(directory=directory, role=role, cookie=cookie, holds_data=holds_data)


def both(journal: Cookie | None, ledgers: Cookie | None, *, holds_data: bool) -> list[FoundDirectory]:
    return [found(JOURNAL, journal, holds_data=holds_data), found(LEDGERS, ledgers, holds_data=holds_data)]


def test_the_usual_start() -> None:
    assert judge(OURS, OURS, both(OURS, OURS, holds_data=True)) is Verdict.KNOWN


def test_the_usual_start_with_roles_in_the_cookies() -> None:
    cookies = both(replace(OURS, role="journal"), replace(OURS, role="ledger"), holds_data=True)
    assert judge(OURS, OURS, cookies) is Verdict.KNOWN


def test_exchanged_mounts_refuse() -> None:
    """Both directories are this bookie's, each under the other's path."""
    cookies = both(replace(OURS, role="ledger"), replace(OURS, role="journal"), holds_data=True)
    for in_store in (OURS, None):
        with pytest.raises(
            CookieMismatchError, match=r"/disk1/journal has the cookie of .* ledger directory"
        ) as e:
            judge(OURS, in_store, cookies)
        assert "swap the mounts" in str(e.value)


@pytest.mark.parametrize("holds_data", [True, False])
def test_a_known_bookie_without_its_log_mark_refuses(holds_data: bool) -> None:
    """Emptied except for the cookies, or only the log mark is lost: the store knows that there was one."""
    journal, ledgers = both(OURS, OURS, holds_data=holds_data)
    without = replace(ledgers, missing=LEDGERS / "log-mark")
    with pytest.raises(
        CookieMismatchError, match="/disk2/ledgers/log-mark is missing in the ledger directory"
    ) as caught:
        judge(OURS, OURS, [journal, without])
    assert "another id" in str(caught.value)


def test_the_first_start() -> None:
    journal, ledgers = both(None, None, holds_data=False)
    assert judge(OURS, None, [journal, replace(ledgers, missing=LEDGERS / "log-mark")]) is Verdict.NEW


def test_a_first_start_that_was_interrupted_goes_on() -> None:
    """The cookie reached one directory, or both, and not yet the store: nothing was ever stored here."""
    assert judge(OURS, None, both(OURS, None, holds_data=False)) is Verdict.NEW
    assert judge(OURS, None, both(OURS, OURS, holds_data=False)) is Verdict.NEW


@pytest.mark.parametrize(
    "directories",
    [both(None, OURS, holds_data=True), both(OURS, None, holds_data=True), both(None, None, holds_data=True)],
)
def test_a_missing_cookie_means_a_missing_disk(directories: list[FoundDirectory]) -> None:
    with pytest.raises(CookieMismatchError, match="mount its disk") as caught:
        judge(OURS, OURS, directories)
    assert str(caught.value.directory) in str(caught.value)


def test_an_emptied_directory_refuses() -> None:
    with pytest.raises(CookieMismatchError, match="/disk1/journal is empty"):
        judge(OURS, OURS, [found(JOURNAL, None, holds_data=False), found(LEDGERS)])


def test_data_that_the_store_does_not_know_refuses() -> None:
    """A wrong metadata address, or a cluster formatted anew under a bookie that still has its entries."""
    with pytest.raises(
        CookieMismatchError, match=r"/disk1/journal holds data and no cookie.*give the metadata store"
    ):
        judge(OURS, None, both(None, None, holds_data=True))


def test_a_decommissioned_bookie_refuses_and_names_the_way_out() -> None:
    """The cookies name the cluster of the store, which has forgotten the bookie: there is no other store to give."""
    with pytest.raises(CookieMismatchError, match="/disk1/journal holds data and its cookie") as caught:
        judge(OURS, None, both(OURS, OURS, holds_data=True))
    assert "it was decommissioned" in str(caught.value) and "`bookie format`" in str(caught.value)
    assert "give the metadata store" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"bookie_id": "127.0.0.1:3182"}, "bookie id"),
        ({"instance_id": "cluster-2"}, "cluster instance id"),
        ({"journal_dirs": ("/elsewhere",)}, "journal directories"),
        ({"ledger_dirs": ("/elsewhere",)}, "first ledger directory"),
    ],
)
def test_a_foreign_cookie_refuses_wherever_it_is(change: dict[str, str], says: str) -> None:
    foreign = replace(OURS, **change)  # type: ignore[arg-type]  # the table above has the right types
    for directories in (both(foreign, OURS, holds_data=True), both(OURS, foreign, holds_data=True)):
        with pytest.raises(CookieMismatchError, match=says) as caught:
            judge(OURS, OURS, directories)
        assert str(caught.value.directory) in str(caught.value)
    with pytest.raises(CookieMismatchError, match=f"metadata store.*{says}"):
        judge(OURS, foreign, both(OURS, OURS, holds_data=True))


MORE, OTHER = Path("/disk3/more"), Path("/disk4/other")


def having(*more: Path) -> Cookie:
    return own_cookie("127.0.0.1:3181", JOURNAL, LEDGERS, "cluster-1", more)


def entries_in(directory: Path, cookie: Cookie | None, *, holds_data: bool = True) -> FoundDirectory:
    return FoundDirectory(directory=directory, role="entries", cookie=cookie, holds_data=holds_data)


@pytest.mark.parametrize("written", [None, having(MORE)])
def test_an_empty_directory_may_be_added(written: Cookie | None) -> None:
    """Also when the start that adds it was cut off after its cookie was written."""
    directories = [*both(OURS, OURS, holds_data=True), entries_in(MORE, written, holds_data=False)]
    assert judge(having(MORE), OURS, directories) is Verdict.KNOWN


def test_a_directory_that_holds_entry_logs_cannot_be_added() -> None:
    """It may have been given up as lost: the bookie has given its ids to other entry logs since."""
    for cookie in (None, having(MORE)):
        with pytest.raises(CookieMismatchError, match=r"/disk3/more holds entry logs, and .* give an empty"):
            judge(having(MORE), OURS, [*both(OURS, OURS, holds_data=True), entries_in(MORE, cookie)])


@pytest.mark.parametrize("holds_data", [True, False])
def test_a_directory_of_another_bookie_cannot_be_added(holds_data: bool) -> None:
    """It is no new one, and to empty it would lose what the other bookie has there; nor is the list of its directories
    of use."""
    foreign = replace(having(MORE, OTHER), bookie_id=BookieId("127.0.0.1:3182"), role="entries")
    directories = [*both(OURS, OURS, holds_data=True), entries_in(OTHER, foreign, holds_data=holds_data)]
    for in_store in (OURS, having(OTHER)):
        with pytest.raises(
            CookieMismatchError,
            match=r"ledger directory /disk4/other does not match bookie 127.0.0.1:3181, it is of another one: "
            r"bookie id is '127.0.0.1:3181' here and '127.0.0.1:3182' there: give the bookie directories of its own",
        ):
            judge(having(OTHER), in_store, directories)


def test_a_first_directory_elsewhere_is_named_without_the_others() -> None:
    elsewhere = own_cookie("127.0.0.1:3181", JOURNAL, Path("/moved"), "cluster-1", [MORE, OTHER])
    with pytest.raises(CookieMismatchError, match="is /disk2/ledgers here and /moved there") as caught:
        judge(having(MORE, OTHER), elsewhere, both(having(MORE, OTHER), None, holds_data=True))
    assert str(MORE) not in str(caught.value) and "index directories" not in str(caught.value)


def test_a_listed_directory_must_be_given() -> None:
    listing = having(MORE)
    for directories in (both(listing, OURS, holds_data=True), both(OURS, listing, holds_data=True)):
        with pytest.raises(
            CookieMismatchError, match=r"lists the ledger directory /disk3/more.*lost-ledger-dir"
        ):
            judge(OURS, OURS, directories)
    with pytest.raises(CookieMismatchError, match="metadata store lists the ledger directory /disk3/more"):
        judge(OURS, listing, both(OURS, OURS, holds_data=True))
    with pytest.raises(CookieMismatchError, match="metadata store lists the ledger directory /disk3/more"):
        judge(having(OTHER), listing, both(OURS, OURS, holds_data=True))


def test_a_lost_directory_is_given_up_wherever_it_is_listed() -> None:
    listing = having(MORE)
    for written in (listing, OURS):
        assert judge(OURS, listing, both(written, listing, holds_data=True), [str(MORE)]) is Verdict.KNOWN


def test_a_known_directory_that_is_empty_may_only_be_given_up() -> None:
    listing = having(MORE, OTHER)
    directories = [
        *both(listing, listing, holds_data=True),
        entries_in(MORE, None, holds_data=False),
        entries_in(OTHER, listing),
    ]
    with pytest.raises(CookieMismatchError, match=r"/disk3/more is empty.*--lost-ledger-dir /disk3/more"):
        judge(listing, listing, directories)


def test_directories_without_the_index_may_be_in_each_others_place() -> None:
    """Whichever has an entry log, it is found there."""
    listing = having(MORE, OTHER)
    directories = [entries_in(OTHER, listing), entries_in(MORE, listing)]
    assert judge(having(OTHER, MORE), listing, [*both(listing, listing, holds_data=True), *directories])


def test_the_directory_with_the_index_stays_the_first_one() -> None:
    listing = having(MORE)
    swapped = own_cookie("127.0.0.1:3181", JOURNAL, MORE, "cluster-1", [LEDGERS])
    with pytest.raises(CookieMismatchError, match="index, is /disk3/more here and /disk2/ledgers there: "):
        judge(swapped, listing, both(listing, listing, holds_data=True))
    with pytest.raises(CookieMismatchError, match="index, is /disk3/more here and /disk2/ledgers there: "):
        lost_first = own_cookie("127.0.0.1:3181", JOURNAL, MORE, "cluster-1")
        judge(lost_first, listing, both(listing, listing, holds_data=True), [str(LEDGERS)])


def test_swapped_directories_refuse() -> None:
    """Journal and ledger directory of one bookie exchanged: both cookies name the paths."""
    swapped = own_cookie("127.0.0.1:3181", LEDGERS, JOURNAL, "cluster-1")
    with pytest.raises(CookieMismatchError, match="journal directories"):
        judge(swapped, OURS, both(OURS, OURS, holds_data=True))
