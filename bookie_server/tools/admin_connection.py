"""One connection to a running bookie, ours or Apache's, for commands that ask it one thing after another.

The protobuf protocol, because it distinguishes a refusal from an answer for every operation.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from ledger.errors import BookieUnavailableError, ProtocolError
from ledger.wire import v3
from ledger.wire.frame import LENGTH, check_length
from ledger.wire.messages import Operation, V3Request, V3RequestBody, V3Response
from ledger.wire.status import Status

B = TypeVar("B")

ANSWER_S = 10.0


class AdminConnection:
    def __init__(
        self, place: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer_bytes_max: int
    ) -> None:
        self.place = place
        self._reader = reader
        self._writer = writer
        self._answer_bytes_max = answer_bytes_max
        self._txn_id = 0

    async def ask(
        self, operation: Operation, body: V3RequestBody, expected: type[B]
    ) -> tuple[Status, B | None]:
        """The status and the body that this operation is answered with. BookieUnavailableError."""
        self._txn_id += 1
        response = await self._answer(V3Request(txn_id=self._txn_id, operation=operation, body=body))
        if response.outcome is Status.EUA:
            raise BookieUnavailableError(
                f"the bookie at {self.place} refuses this client (EUA): it requires authentication or TLS, which this "
                "command does not support"
            )
        found = response.body
        return response.outcome, found if isinstance(found, expected) else None

    async def _answer(self, request: V3Request) -> V3Response:
        try:
            async with asyncio.timeout(ANSWER_S):
                self._writer.write(v3.encode_request(request))
                (length,) = LENGTH.unpack(await self._reader.readexactly(LENGTH.size))
                check_length(length, self._answer_bytes_max)
                return v3.decode_response(await self._reader.readexactly(length))
        except (OSError, asyncio.IncompleteReadError) as error:
            raise _silent(self.place, error) from error
        except ProtocolError as error:
            raise BookieUnavailableError(
                f"the server at {self.place} is not a bookie, or requires TLS: {error}"
            ) from error


@asynccontextmanager
async def linked(host: str, port: int, answer_bytes_max: int) -> AsyncIterator[AdminConnection]:
    """Connect; the connection ends with the block. BookieUnavailableError if nothing answers there."""
    place = f"{host}:{port}"
    try:
        async with asyncio.timeout(ANSWER_S):
            reader, writer = await asyncio.open_connection(host, port)
    except (OSError, UnicodeError) as error:
        # The latter: a name that cannot be a host's.
        raise _silent(place, error) from error
    try:
        yield AdminConnection(place, reader, writer, answer_bytes_max)
    finally:
        writer.close()


def _silent(place: str, error: Exception) -> BookieUnavailableError:
    return BookieUnavailableError(
        f"no bookie answers at {place} ({str(error) or 'no response in time'}): check the address, or start the bookie"
    )
