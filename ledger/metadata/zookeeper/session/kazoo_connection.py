"""kazoo's connection, with a limit that it lacks, for when one of several servers does not respond.

Connecting to a server takes no longer than its part of the time. kazoo waits for a whole session timeout until a
machine that is down accepts: by then the session may have expired, and what waits for it has given up.

Source: `connectTimeout` in ClientCnxn of Apache ZooKeeper.
"""

from __future__ import annotations

from typing import Any

from kazoo.protocol.connection import ConnectionHandler


class KazooConnection(ConnectionHandler):  # type: ignore[misc]  # kazoo has no types
    """`server_s`: for connecting to one server."""

    def __init__(self, client: Any, retry: Any, *, server_s: float, logger: Any) -> None:
        super().__init__(client, retry, logger=logger)
        self._server_s = server_s

    # ---- called by kazoo, in its thread

    def _invoke(self, timeout_s: float, request: Any, xid: int | None = None) -> Any:
        """The handshake with a server, and the credentials."""
        return super()._invoke(min(timeout_s, self._server_s), request, xid)
