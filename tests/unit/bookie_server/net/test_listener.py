"""Why a bookie cannot listen: each reason has its own way out. A port that is taken: tests/integration/bookie."""

from __future__ import annotations

import asyncio
import errno
import socket

import pytest

from bookie_server.errors import PortTakenError
from bookie_server.net.listener import bind
from ledger.errors import ConfigurationError, LogStoreError


@pytest.mark.parametrize(
    ("error", "kind", "way_out"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), ConfigurationError, "can resolve"),
        (OSError(errno.EADDRNOTAVAIL, "not available"), ConfigurationError, "address of this machine"),
        (OSError(errno.EADDRINUSE, "in use"), PortTakenError, "stop the process that uses the port"),
    ],
)
async def test_a_host_or_a_port_of_no_use_is_named_with_a_way_out(
    monkeypatch: pytest.MonkeyPatch, error: OSError, kind: type[LogStoreError], way_out: str
) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(asyncio.get_running_loop(), "create_server", refuse)
    with pytest.raises(kind, match=rf"cannot listen on b1:3181 \(.*{way_out}"):
        await bind("b1", 3181, asyncio.Protocol)
