"""Addresses of ZooKeeper: what is understood, what is refused, what is printed."""

from __future__ import annotations

import pytest

from ledger.errors import ConfigurationError
from ledger.metadata.format.layout import LayoutType
from ledger.metadata.uri import parse_uri
from ledger.metadata.zookeeper.address import ZooKeeperAddress, parse_address


def parsed(text: str) -> ZooKeeperAddress:
    return parse_address(parse_uri(text))


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("zk", None),
        ("zk+null", None),
        ("zk+flat", LayoutType.FLAT),
        ("zk+hierarchical", LayoutType.HIERARCHICAL),
        ("zk+legacyhierarchical", LayoutType.LEGACY_HIERARCHICAL),
        ("ZK+LongHierarchical", LayoutType.LONG_HIERARCHICAL),
    ],
)
def test_the_scheme_names_the_ledger_manager(name: str, layout: LayoutType | None) -> None:
    assert parsed(f"{name}://h/ledgers").layout is layout


def test_servers_are_separated_by_either_mark_and_get_the_usual_port() -> None:
    address = parsed("zk://h1:2181;h2,[::1]:99,[::1]/bk/ledgers/")
    assert address.servers == ("h1:2181", "h2:2181", "[::1]:99", "[::1]:2181")
    assert address.root == "/bk/ledgers"
    assert address.uri == "zk://h1:2181;h2:2181;[::1]:99;[::1]:2181/bk/ledgers"


def test_the_printed_address_means_the_same() -> None:
    text = "zk+flat://h:1/a?root=/x&session_timeout_ms=500&auth_file=/etc/zk"
    address = parsed(text)
    assert address.uri == text
    assert parsed(address.uri) == address
    assert (address.session_timeout_ms, address.request_timeout_ms, address.auth_file) == (
        500,
        10_000,
        "/etc/zk",
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("zk:h:2181/ledgers", "lacks //"),
        ("zk://h:2181", "lacks the path"),
        ("zk://h:2181/", "lacks the path"),
        ("zk:///ledgers", "no host:port"),
        ("zk://h:0/ledgers", "no host:port"),
        ("zk://h:x/ledgers", "no host:port"),
        ("zk://u@h:1/ledgers", "no host:port"),
        ("zk://h;;g/ledgers", "no host:port"),
        ("zk://h..g:1/ledgers", "no host:port"),
        ("zk://.h/ledgers", "no host:port"),
        (f"zk://{'h' * 64}/ledgers", "no host:port"),
        ("zk://h//ledgers", "no path"),
        ("zk://h/a/../b", "no path"),
        ("zk://h/a b", "no path"),
        ("zk://h/zookeeper/x", "for itself"),
        ("zk+hashed://h/ledgers", "no ledger manager"),
        ("zk://h/ledgers?session_timeout_ms=5s", "session_timeout_ms"),
        ("zk://h/ledgers?request_timeout_ms=0", "request_timeout_ms"),
    ],
)
def test_a_wrong_address_is_refused_with_a_right_one(text: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why) as caught:
        parsed(text)
    assert "zk+hierarchical://host1:2181" in str(caught.value)
