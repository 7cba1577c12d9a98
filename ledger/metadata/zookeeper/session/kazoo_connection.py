"""kazoo's connection, with what it lacks: two limits, for when one of several servers does not respond; requests that
belong to one session; and patience with a process that has no descriptor left.

- Connecting to a server takes no longer than its part of the time. kazoo waits for a whole session timeout until a
  machine that is down accepts: by then the session may have expired, and what waits for it has given up.
- A server that has not answered for kazoo's read timeout is left for the next one. kazoo misses the answer to a ping
  only while nothing is requested: with requests that keep coming it would stay with a dead connection.
- A request that belongs to a session is not sent in another one. Only kazoo's thread can decide that: the loop may
  hear of a new session after its requests are on their way.
- A host whose address cannot be looked up for now, because that takes a descriptor, is looked up again. kazoo's thread
  ends by any other error than that the name is not known, and nothing would connect any more.

Source: `connectTimeout` and `readTimeout` in ClientCnxn of Apache ZooKeeper.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kazoo.exceptions import ConnectionDropped as ConnectionDroppedError
from kazoo.protocol.connection import ConnectionHandler


class OtherSessionError(Exception):
    """The request belonged to a session that has ended, and was not sent."""


def call_within(client: Any, request: Any, session_id: int | None) -> Any:
    """kazoo's result of a request that is sent in this session, or fails with OtherSessionError. None: in any."""
    answer = client.handler.async_result()
    answer.within = session_id  # before kazoo's thread can see it
    client._call(request, answer)
    return answer


class KazooConnection(ConnectionHandler):  # type: ignore[misc]  # kazoo has no types
    """`server_s`: for connecting to one server. `on_end` is called in kazoo's thread at its end."""

    def __init__(
        self, client: Any, retry: Any, *, server_s: float, on_end: Callable[[], None], logger: Any
    ) -> None:
        super().__init__(client, retry, logger=logger)
        self._on_end = on_end
        self._server_s = server_s
        self._unanswered_since_s = 0.0
        """While requests are unanswered: when the first of them was sent, or the last answer came."""

    # ---- called by kazoo, in its thread

    def zk_loop(self) -> None:
        try:
            super().zk_loop()
        finally:
            self._on_end()

    def _invoke(self, timeout_s: float, request: Any, xid: int | None = None) -> Any:
        """The handshake with a server, and the credentials."""
        return super()._invoke(min(timeout_s, self._server_s), request, xid)

    def _expand_client_hosts(self) -> Any:
        """The addresses of all servers; none if they are to be looked up again."""
        try:
            return super()._expand_client_hosts()
        except OSError as error:
            self.logger.warning("cannot look up the addresses of the servers: %s", error)
            return []

    def _send_request(self, read_timeout_s: float, connect_timeout_s: float) -> None:
        now_s = time.monotonic()
        if not self.client._pending:
            self._unanswered_since_s = now_s
        elif now_s - self._unanswered_since_s > read_timeout_s:
            raise ConnectionDroppedError(f"no answer for {read_timeout_s:g} s")
        if not self._has_refused_next():
            super()._send_request(read_timeout_s, connect_timeout_s)

    def _has_refused_next(self) -> bool:
        """Whether the next request belonged to another session; then it is taken from kazoo's queue."""
        queue = self.client._queue
        if not queue:
            return False
        answer = queue[0][1]
        if getattr(answer, "within", None) in (None, self.client._session_id):
            return False
        queue.popleft()
        self._read_sock.recv(1)  # kazoo's queue has a byte there for each request
        answer.set_exception(OtherSessionError())
        return True

    def _read_socket(self, read_timeout_s: float) -> Any:
        self._unanswered_since_s = time.monotonic()
        return super()._read_socket(read_timeout_s)
