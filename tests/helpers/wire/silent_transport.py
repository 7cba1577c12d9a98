"""Transports under a bookie connection that accept every write and deliver nothing."""

from __future__ import annotations

from ledger.model import BookieId
from ledger.wire import v2
from ledger.wire.messages import ReadResponse
from ledger.wire.status import Status

BOOKIE = BookieId("b")


class SilentTransport:
    """A transport that takes everything and says nothing."""

    def __init__(self) -> None:
        self.aborted = False

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes) -> None: ...

    def abort(self) -> None:
        self.aborted = True


def absent(entry_id: int) -> bytes:
    return v2.encode_response(
        ReadResponse(status=Status.ENOENTRY, ledger_id=1, entry_id=entry_id, entry=None)
    )


class RecordingTransport(SilentTransport):
    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.sent.append(bytes(data))
