"""A stream over a pattern lists names with one request, and looks up only those whose logs may not exist."""

from __future__ import annotations

from typing import Any

from dlog.errors import LogNotFoundError
from dlog.model import LogName
from spark_connector.options.log_choice import LogPattern
from spark_connector.stream.matching_logs import MatchingLogs


class Names:
    """The names of a namespace, of which some have a log. Notes each request."""

    def __init__(self, used: list[str], existing: set[str]) -> None:
        self.used = used
        self.existing = existing
        self.requests: list[str] = []

    async def used_names(self, namespace: str) -> list[str]:
        self.requests.append(f"list {namespace}")
        return list(self.used)

    async def find(self, log: LogName) -> LogName:
        self.requests.append(log.name)
        if log.name not in self.existing:
            raise LogNotFoundError(f"log {log} does not exist", log=str(log))
        return log

    def taken(self) -> list[str]:
        """The requests since the last call."""
        found, self.requests = self.requests, []
        return found


def matching(names: Any, kept_s: float = 0.0) -> MatchingLogs:
    return MatchingLogs(LogPattern("orders-.*"), "default", names, 1000, kept_s)


async def test_a_log_that_is_known_is_not_looked_up_again() -> None:
    names = Names(["bills", "orders-1", "orders-2"], {"bills", "orders-1", "orders-2"})
    logs = matching(names)
    assert await logs.names() == ["orders-1", "orders-2"]
    assert names.taken() == ["list default", "orders-1", "orders-2"]
    names.used.append("orders-3")
    names.existing.add("orders-3")
    assert await logs.names() == ["orders-1", "orders-2", "orders-3"]
    assert names.taken() == ["list default", "orders-3"]
    assert await logs.names() == ["orders-1", "orders-2", "orders-3"]
    assert names.taken() == ["list default"]


async def test_a_name_without_a_log_is_looked_up_until_it_has_one() -> None:
    names = Names(["orders-1"], set())
    logs = matching(names)
    assert await logs.names() == []
    names.existing.add("orders-1")
    names.taken()
    assert await logs.names() == ["orders-1"]
    assert names.taken() == ["list default", "orders-1"]


async def test_a_log_that_was_deleted_and_forgotten_comes_back_when_it_is_created_again() -> None:
    names = Names(["orders-1"], {"orders-1"})
    logs = matching(names)
    await logs.names()
    names.existing.clear()
    logs.forget("orders-1")
    assert await logs.names() == []
    names.existing.add("orders-1")
    assert await logs.names() == ["orders-1"]


async def test_a_name_that_is_listed_no_more_is_none_of_them() -> None:
    names = Names(["orders-1", "orders-2"], {"orders-1", "orders-2"})
    logs = matching(names)
    await logs.names()
    names.used.remove("orders-1")
    assert await logs.names() == ["orders-2"]


async def test_a_listing_is_used_again_for_a_while() -> None:
    names = Names(["orders-1"], {"orders-1"})
    logs = matching(names, kept_s=60.0)
    await logs.names()
    names.taken()
    assert await logs.names() == ["orders-1"]
    assert names.taken() == []
