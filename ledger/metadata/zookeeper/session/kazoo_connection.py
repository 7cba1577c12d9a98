"""kazoo's connection, with two limits that it lacks, for when one of several servers does not respond.

- Connecting to a server takes no longer than its part of the time. kazoo waits for a whole session timeout until a
  machine that is down accepts: by then the session may have expired, and what waits for it has given up.
- A server that has not answered for kazoo's read timeout is left for the next one. kazoo misses the answer to a ping
  only while nothing is requested: with requests that keep coming it would stay with a dead connection.

Source: `connectTimeout` and `readTimeout` in ClientCnxn of Apache ZooKeeper.
"""

from __future__ import annotations

import time
from typing import Any

from kazoo.exceptions import ConnectionDropped as ConnectionDroppedError
from kazoo.protocol.connection import ConnectionHandler


class KazooConnection(ConnectionHandler):  # type: ignore[misc]  # kazoo has no types
    """`server_s`: for connecting to one server."""

    def __init__(self, client: Any, retry: Any, *, server_s: float, logger: Any) -> None:
        super().__init__(client, retry, logger=logger)
        self._server_s = server_s
        self._unanswered_since_s = 0.0
        """While requests are unanswered: when the first of them was sent, or the last answer came."""

    # ---- called by kazoo, in its thread

    def _invoke(self, timeout_s: float, request: Any, xid: int | None = None) -> Any:
        """The handshake with a server, and the credentials."""
        return super()._invoke(min(timeout_s, self._server_s), request, xid)

    def _send_request(self, read_timeout_s: float, connect_timeout_s: float) -> None:
        now_s = time.monotonic()
        if not self.client._pending:
            self._unanswered_since_s = now_s
        elif now_s - self._unanswered_since_s > read_timeout_s:
            raise ConnectionDroppedError(f"no answer for {read_timeout_s:g} s")
        super()._send_request(read_timeout_s, connect_timeout_s)

    def _read_socket(self, read_timeout_s: float) -> Any:
        self._unanswered_since_s = time.monotonic()
        return super()._read_socket(read_timeout_s)
