"""Programs that give no address connect to the cluster that the environment names."""

from __future__ import annotations

import pytest

import dlog
from dlog import aio
from ledger.errors import ConfigurationError, MetadataUnavailableError


@pytest.fixture(autouse=True)
def no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DLOG_METADATA", raising=False)


def test_without_an_address_the_error_says_where_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in (None, ""):
        if value is not None:
            monkeypatch.setenv("DLOG_METADATA", value)
        with pytest.raises(
            ConfigurationError, match=r"pass its address .* DLOG_METADATA; `dlog standalone` starts"
        ):
            dlog.connect()


def test_the_environment_gives_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLOG_METADATA", "sqlite:////nowhere/at/all/meta.db")
    with pytest.raises(MetadataUnavailableError, match=r"/nowhere/at/all/meta\.db"):
        dlog.connect()
    with pytest.raises(ConfigurationError, match="no address"):
        dlog.connect("no address")


async def test_the_same_for_asyncio(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="DLOG_METADATA"):
        await aio.connect()
    monkeypatch.setenv("DLOG_METADATA", "sqlite:////nowhere/at/all/meta.db")
    with pytest.raises(MetadataUnavailableError, match=r"/nowhere/at/all/meta\.db"):
        async with aio.connect():
            pass


def test_an_address_of_a_wrong_type_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="address must be a text, got 7"):
        dlog.connect(7)  # type: ignore[arg-type]


def test_an_address_in_memory_is_not_recommended_to_other_processes() -> None:
    """`bookie init-cluster` and bookies could not reach it."""
    with pytest.raises(
        MetadataUnavailableError, match="exists only in this process: use an address"
    ) as raised:
        dlog.connect("memory:empty")
    assert "bookie init-cluster" not in str(raised.value)
