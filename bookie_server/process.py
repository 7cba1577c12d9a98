"""One bookie as a process: event loop, signals, the ready line, the exit code.

Exit codes: 0 stopped on request; 1 could not start now, or had to stop; 2 could not start, and would not the next time
either, unless a setting or a directory is corrected (ConfigurationError).
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

from bookie_server.allocator import return_large_blocks
from bookie_server.autorecovery import RepairStatus, autorecovery
from bookie_server.config import BookieConfig
from bookie_server.control.commands import BookieControl
from bookie_server.control.server import ControlSocket
from bookie_server.disk.system_disk import SystemDisk
from bookie_server.log_output import log_to_stderr
from bookie_server.monitoring.facts import Stage
from bookie_server.net.descriptors import limits_within, raise_descriptor_limit
from bookie_server.server import BookieServer
from ledger.command_line import DONE, FAILED, exit_code_of, say, stop_signals, tell
from ledger.environment import SystemEnvironment
from ledger.errors import LogStoreError
from ledger.extras import require
from ledger.metadata.drivers import open_store
from ledger.metadata.store import MetadataStore
from ledger.whole_loop import whole

logger = logging.getLogger(__name__)

SWITCH_INTERVAL_S = 0.0005
"""How long the journal's thread may wait for the interpreter after its sync; five milliseconds, Python's
default, would be several times the sync itself."""


GC_THRESHOLDS = (100_000, 50, 100)
"""The write cache holds a view per entry, none in a cycle: the collector would walk them over and over."""


def run(config: BookieConfig) -> int:
    """Serve until SIGTERM, SIGINT or SIGHUP; the exit code.

    Raises the process's limit of open files as far as it may. ConfigurationError if that is not enough, or if an extra
    is missing.
    """
    if config.http_port is not None:
        require("bookie start --http-port", "metrics", "prometheus_client")
    log_to_stderr(config.log_level)
    config = _within_descriptors(config)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    return_large_blocks()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    with asyncio.Runner(loop_factory=partial(whole, loop_factory())) as runner:
        return runner.run(_serve(config))


def _within_descriptors(config: BookieConfig) -> BookieConfig:
    descriptors_max = raise_descriptor_limit()
    limits = limits_within(config.limits, config.storage, descriptors_max)
    if limits != config.limits:
        logger.warning(
            "at most %d connections instead of %d, and %d from one address: the limit of open files is %d",
            limits.connections_max,
            config.limits.connections_max,
            limits.connections_per_address_max,
            descriptors_max,
        )
    return replace(config, limits=limits)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """The event loop of a bookie's process: uvloop's, or asyncio's where that is not installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


async def _serve(config: BookieConfig) -> int:
    loop = asyncio.get_running_loop()
    asked_to_stop = asyncio.Event()
    for each in stop_signals():
        loop.add_signal_handler(each, asked_to_stop.set)
    store = await _opened(config.metadata, asked_to_stop)
    if store is None:
        return DONE
    try:
        environment = SystemEnvironment()
        server = BookieServer(config, store, SystemDisk(), environment)
        async with (
            autorecovery(config, store, environment) as repair_status,
            _pages(config, server, repair_status) as enter,
        ):
            return await _serve_until(asked_to_stop, config, server, repair_status, enter)
    except LogStoreError as error:
        say("bookie", str(error))
        return exit_code_of(error)
    finally:
        await store.close()


async def _opened(metadata: str, asked_to_stop: asyncio.Event) -> MetadataStore | None:
    """The store; None if the process is asked to stop before it responds."""
    asked = asyncio.create_task(_wait_for(asked_to_stop))
    opening = asyncio.create_task(open_store(metadata))
    await asyncio.wait({opening, asked}, return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    if not opening.done():
        opening.cancel()
        await asyncio.wait({opening})
    return None if opening.cancelled() else await opening


async def _serve_until(
    asked_to_stop: asyncio.Event,
    config: BookieConfig,
    server: BookieServer,
    repair_status: RepairStatus,
    enter: Callable[[Stage], None],
) -> int:
    """`enter` is called with each stage that the process reaches, but for the first one."""
    asked = asyncio.create_task(_wait_for(asked_to_stop))
    starting = asyncio.create_task(server.start())
    await asyncio.wait({starting, asked}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        enter(Stage.STOPPING)
        starting.cancel()
        await asyncio.wait({starting})
        if not starting.cancelled():  # its clean-up has failed, or it was about to serve
            await starting
            await server.stop()
        return DONE
    try:
        await starting
        async with _control(config, server, repair_status):
            enter(Stage.SERVING)
            tell(f"bookie {config.advertised_host}:{server.port} is ready")
            failed = asyncio.create_task(_wait_for(server.failed))
            await asyncio.wait({failed, asked}, return_when=asyncio.FIRST_COMPLETED)
            failed.cancel()
            enter(Stage.STOPPING)
    finally:
        asked.cancel()
    # The reason comes before the clean-up, which can take its time on a broken disk.
    if server.failure is not None:
        say("bookie", str(server.failure))
    await server.stop()
    return DONE if server.failure is None else FAILED


@asynccontextmanager
async def _pages(
    config: BookieConfig, server: BookieServer, repair_status: RepairStatus
) -> AsyncIterator[Callable[[Stage], None]]:
    """Serve health and metrics from before the start until after the stop, if the settings ask for it."""
    if config.http_port is None:
        yield lambda _: None
        return
    from bookie_server.monitoring.serving import serving_pages  # needs the extra metrics

    async with serving_pages(config, server, repair_status) as facts:
        yield facts.enter


@asynccontextmanager
async def _control(
    config: BookieConfig, server: BookieServer, repair_status: RepairStatus
) -> AsyncIterator[None]:
    """Serve commands of this machine. A bookie that cannot serves its clients all the same."""
    assert server.storage is not None, "it has been started"
    control = BookieControl(server.storage, server.scrubber, repair_status)
    try:
        opened = await ControlSocket.open(config.storage.ledger_directory, control.perform)
    except OSError as error:
        logger.warning(
            "`bookie space`, `compact`, `scrub` and `info --data` need a stop of this bookie: no socket (%s)",
            error,
        )
        yield
        return
    try:
        yield
    finally:
        await opened.close()


async def _wait_for(event: asyncio.Event) -> None:
    await event.wait()
