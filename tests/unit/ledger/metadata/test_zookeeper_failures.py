"""Which of our errors each failure of a ZooKeeper request becomes, for a read and for a change."""

from __future__ import annotations

import pytest
from kazoo import exceptions as kazoo

from ledger.errors import MetadataOutcomeUnknownError, MetadataUnavailableError, UnauthorizedError
from ledger.metadata.zookeeper.address import ZooKeeperAddress
from ledger.metadata.zookeeper.session.failures import Failures

FAILURES = Failures(ZooKeeperAddress(servers=("h:2181",), root="/ledgers"))


@pytest.mark.parametrize(
    "error",
    [
        kazoo.ConnectionLoss(),
        kazoo.SessionExpiredError(),
        kazoo.ConnectionClosedError(),
        kazoo.OperationTimeoutError(),
        kazoo.RuntimeInconsistency(),
        ValueError("an answer that cannot be read"),
    ],
)
def test_a_change_without_a_clear_answer_is_unknown(error: Exception) -> None:
    assert isinstance(FAILURES.of_answer(error, is_change=True), MetadataOutcomeUnknownError)
    assert isinstance(FAILURES.of_answer(error, is_change=False), MetadataUnavailableError)


@pytest.mark.parametrize(
    "error", [kazoo.QuotaExceededError(), kazoo.ThrottledOpError(), kazoo.InvalidACLError()]
)
def test_a_refused_change_was_not_made(error: Exception) -> None:
    for is_change in (True, False):
        assert isinstance(FAILURES.of_answer(error, is_change=is_change), MetadataUnavailableError)


def test_missing_rights_name_the_way_out() -> None:
    for error in (kazoo.NoAuthError(), kazoo.AuthFailedError(), kazoo.SessionClosedRequireSaslError()):
        found = FAILURES.of_answer(error, is_change=True)
        assert isinstance(found, UnauthorizedError) and "auth_file" in str(found)


def test_a_credential_that_is_not_the_owners_is_to_be_corrected() -> None:
    """Not to be named: it is in the address."""
    address = ZooKeeperAddress(servers=("h:2181",), root="/ledgers", auth_file="/etc/dlog/credential")
    for found in (
        Failures(address).of_answer(kazoo.NoAuthError(), is_change=False),
        Failures(address).of_commit([kazoo.NoAuthError()]),
    ):
        assert isinstance(found, UnauthorizedError)
        assert "the user:password in /etc/dlog/credential is not the owner's" in str(found)
        assert "name a file" not in str(found)


@pytest.mark.parametrize(
    "error",
    [
        kazoo.NoNodeError(),
        kazoo.NodeExistsError(),
        kazoo.BadVersionError(),
        kazoo.NotEmptyError(),
        kazoo.UnimplementedError(),
    ],
)
def test_what_callers_expect_is_handed_to_them(error: Exception) -> None:
    assert FAILURES.of_answer(error, is_change=True) is error


def test_of_a_commits_errors_the_specific_one_counts() -> None:
    before, after = kazoo.RolledBackError(), kazoo.RuntimeInconsistency()
    assert isinstance(FAILURES.of_commit([before, kazoo.NoAuthError(), after]), UnauthorizedError)
    found = FAILURES.of_commit([before, kazoo.QuotaExceededError(), after])
    assert isinstance(found, MetadataUnavailableError) and "QuotaExceeded" in str(found)
