"""The pages of a bookie's process, for as long as it runs: from before its start to after its stop.

A port that is taken is found before anything of the bookie is touched, and the pages say that it starts or stops.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from bookie_server.config import BookieConfig
from bookie_server.monitoring.collecting import FactCollector
from bookie_server.monitoring.pages import answer
from bookie_server.monitoring.server import MonitoringServer
from bookie_server.server import BookieServer

logger = logging.getLogger(__name__)


@asynccontextmanager
async def serving_pages(
    config: BookieConfig,
    server: BookieServer,
    repair_status: Callable[[], dict[str, Any] | None],
) -> AsyncIterator[FactCollector]:
    """Serve them for the length of the block, which gives the collector each stage.

    Raises:
        PortTakenError: the port is in use.
        ConfigurationError: the host is not one of this machine.
    """
    assert config.http_port is not None, "without a port there are no pages"
    facts = FactCollector(config, server, repair_status, _version())
    pages = await MonitoringServer.open(config.http_host, config.http_port, partial(answer, facts.collect))
    host = f"[{config.http_host}]" if ":" in config.http_host else config.http_host
    logger.info("health and metrics: http://%s:%d/health, /metrics, /state", host, pages.port)
    try:
        yield facts
    finally:
        await pages.close()


def _version() -> str:
    """Of the installed distribution."""
    try:
        return version("dlog-bookkeeper")
    except PackageNotFoundError:  # a checkout on the path
        return "unknown"
