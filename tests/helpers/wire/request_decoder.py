"""Tells v2 from v3 in a captured conversation, as a bookie does on each connection. Pure.

Invariant: a connection starts in v3. The first frame that is no v3 request switches it to v2 for good, and is
itself read as v2; a frame that is neither ends the connection (ProtocolError).
docs/bookkeeper.md#telling-v2-from-v3.
"""

from ledger.errors import ProtocolError
from ledger.wire import v2, v3
from ledger.wire.entry import Buffer
from ledger.wire.messages import V2Request, V3Request


class RequestDecoder:
    """One connection's memory of which protocol it speaks. Answer in the protocol of the request."""

    def __init__(self) -> None:
        self.speaks_v2 = False
        """True once a frame was not v3; from then on a bookie may parse v2 frames in blocks by itself."""

    def decode(self, body: Buffer) -> V2Request | V3Request:
        """The request in a frame's body; ProtocolError means that the connection must be closed."""
        if not self.speaks_v2 and v3.looks_like_v3(body):
            try:
                return v3.decode_request(body)
            except ProtocolError:
                self.speaks_v2 = True
                return v2.decode_request(body)
        self.speaks_v2 = True
        return v2.decode_request(body)
