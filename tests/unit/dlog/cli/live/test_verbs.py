"""top and info --watch while the metadata store is away for a while. The commands: tests/integration/cli."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import cast

import pytest

from dlog.admin import LogInfo
from dlog.cache.metadata_cache import MetadataCache
from dlog.cli.live import verbs as live
from dlog.cli.live.view import LinesFor
from dlog.cli.options import TableOutput
from dlog.cli.outage import Outage
from dlog.client import LogClient
from dlog.inspection.overview import Overview
from dlog.ledger_list.totals import totals_of
from dlog.metadata.log_ref import LogRef
from dlog.model import LogName, MessageId
from ledger.environment import Environment
from ledger.errors import MetadataUnavailableError
from tests.helpers.log.records import listed, record

OLD, NEW = (LogName(namespace="default", name=name) for name in ("old", "new"))


class Clock:
    def wall_us(self) -> int:
        return 1_700_000_000_000_000


class Notices:
    """A view of which only the notices count."""

    def __init__(self) -> None:
        self.notices: list[str | None] = []
        self.removed = asyncio.Event()

    def show(self, lines_for: LinesFor) -> None: ...

    def redraw(self) -> None: ...

    def notice(self, line: str | None) -> None:
        self.notices.append(line)
        if line is None:
            self.removed.set()


class Listing:
    """Client and cache: a list that fails the second time, and what is followed of it."""

    def __init__(self) -> None:
        self.calls = 0
        self.has_new = asyncio.Event()

    def name(self, log: str) -> LogName:
        return LogName(namespace="default", name=log)

    async def list(self) -> list[str]:
        self.calls += 1
        if self.calls == 2:
            raise MetadataUnavailableError("the store is away")
        return [OLD.name] if self.calls == 1 else [OLD.name, NEW.name]

    async def follow_logs(self, logs: Iterable[LogName]) -> None:
        if NEW in logs:
            self.has_new.set()


async def test_logs_created_after_a_failed_list_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_NEW_LOGS_S", 0.001)
    fake, shown = Listing(), Notices()
    client, cache = cast(LogClient, fake), cast(MetadataCache, fake)
    await live._follow_logs(client, cache)
    async with live._new_logs_followed(client, cache, Outage(shown, cast(Environment, Clock()))):
        async with asyncio.timeout(5):
            await fake.has_new.wait()
            await shown.removed.wait()
    assert shown.notices == [
        "metadata store unavailable since 22:13:20Z: the store is away",
        None,
    ]


class Stop(Exception):
    pass


class Changing:
    """Client and cache: a log that has one more message each time, but for two reads that fail."""

    def __init__(self) -> None:
        self.ledgers = self
        self.environment = Clock()
        self.reads = 0

    def name(self, log: str) -> LogName:
        return LogName(namespace="default", name=log)

    def on_change(self, listener: Callable[[object, object], None]) -> None:
        self.changed = lambda: listener(None, None)

    async def follow_logs(self, logs: Iterable[LogName]) -> None:
        """It is there."""

    async def overview(self, log: str) -> Overview:
        self.reads += 1
        if self.reads in (2, 3):
            raise MetadataUnavailableError("the store is away")
        if self.reads == 5:
            raise Stop
        info = LogInfo(ref=LogRef(OLD, "uuid-1"), record=record(listed(3)), version=7)
        tail = MessageId(3, self.reads, 0)
        return Overview(info, MessageId(3, 0, 0), totals_of((), ()), tail, None, None)


@pytest.fixture
def _watched_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def cache_of(client: object) -> AsyncIterator[object]:
        yield client

    monkeypatch.setattr(live, "cache_of", cache_of)
    monkeypatch.setattr(live, "_TAIL_S", 0.001)
    monkeypatch.setattr(live, "interrupt_without_reader", lambda: None)


@pytest.mark.usefixtures("_watched_alone")
async def test_info_watch_outlasts_an_outage_of_the_metadata_store(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(Stop):
        await live._watch(cast(LogClient, Changing()), "old", TableOutput.JSON)
    printed = capsys.readouterr()
    assert [json.loads(line)["next"] for line in printed.out.splitlines()] == ["3:1:0", "3:4:0"]
    assert printed.err == "dlog: metadata store unavailable since 22:13:20Z: the store is away\n"


class Interrupted(Changing):
    """Ctrl-C comes while something changes."""

    async def overview(self, log: str) -> Overview:
        found = await super().overview(log)
        self.changed()
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return found


@pytest.mark.usefixtures("_watched_alone")
async def test_ctrl_c_ends_info_watch_while_the_log_changes() -> None:
    watching = asyncio.create_task(live._watch(cast(LogClient, Interrupted()), "old", TableOutput.JSON))
    async with asyncio.timeout(5):
        await asyncio.wait([watching])
    assert watching.cancelled()
