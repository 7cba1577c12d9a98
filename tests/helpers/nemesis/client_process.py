"""What the writer and the reader processes have in common: their arguments, their address, their planted bug."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Coroutine
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from dlog.blocking.loop_thread import fastest_loop
from dlog.client import LogClient, connect
from dlog.config import LogConfig
from ledger.errors import UnavailableError
from tests.helpers.mutations.planting import planted
from tests.helpers.nemesis.history_file import HistoryFile
from tests.helpers.nemesis.planted_bugs import PLANTED_BUGS
from tests.helpers.nemesis.settings import log_config

READY = "127.0.0.1:0 is ready"


@dataclass(frozen=True)
class ClientArguments:
    uri: str
    history_path: Path
    name: str
    seed: str
    source: str
    """The address of the loopback device that its connections come from: relays know it by that."""
    options: tuple[str, ...] = ()
    """striped, fast, of one reader shrinks, and a planted bug's name."""

    def command_line(self, kind: str) -> list[str]:
        return [
            "-m",
            f"tests.helpers.nemesis.{kind}_process",
            *(self.uri, str(self.history_path), self.name, self.seed, self.source),
            *self.options,
        ]

    @property
    def config(self) -> LogConfig:
        return log_config(striped="striped" in self.options, fast="fast" in self.options)

    @property
    def random(self) -> Random:
        return Random(self.seed)

    def open_history(self) -> HistoryFile:
        return HistoryFile(self.history_path)


def parse_arguments(arguments: list[str]) -> ClientArguments:
    parser = argparse.ArgumentParser()
    for name in ("uri", "history", "name", "seed", "source"):
        parser.add_argument(name)
    parser.add_argument("options", nargs="*")
    found = parser.parse_args(arguments)
    return ClientArguments(
        found.uri, Path(found.history), found.name, found.seed, found.source, tuple(found.options)
    )


async def connected(arguments: ClientArguments) -> LogClient:
    """A client, as soon as there is metadata to connect to."""
    while True:
        try:
            return await connect(arguments.uri, config=arguments.config)
        except UnavailableError as error:
            print(f"{arguments.name} is not connected: {error}", flush=True)
            await asyncio.sleep(0.2)


def run(main: Coroutine[Any, Any, None], arguments: ClientArguments) -> None:
    """Run the coroutine on the loop that production uses, with connections from this client's address."""
    with ExitStack() as bugs:
        for name in set(arguments.options) & set(PLANTED_BUGS):
            bugs.enter_context(planted(PLANTED_BUGS[name]))
        with asyncio.Runner(loop_factory=lambda: _loop_from(arguments.source)) as runner:
            runner.run(main)


def _loop_from(source: str) -> asyncio.AbstractEventLoop:
    with closing(fastest_loop()) as example:
        base: Any = type(example)

    class Loop(base):  # type: ignore[misc]  # uvloop's class, or asyncio's
        async def create_connection(self, *arguments: Any, **options: Any) -> Any:
            return await super().create_connection(*arguments, local_addr=(source, 0), **options)

    loop: asyncio.AbstractEventLoop = Loop()
    return loop
