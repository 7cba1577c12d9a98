"""Requests of the protobuf protocol: ask the service, answer with the request's operation and id.

Both statuses of an answer are filled, and the inner message is always there (older Java clients read it
unconditionally), except where the BookKeeper protocol ("Rules common to all operations") says otherwise.
"""

from __future__ import annotations

from functools import partial

from bookie_server.explicit_lac import read_lac
from bookie_server.fencing import fence
from bookie_server.lac_reads import poll
from bookie_server.peer import Peer
from bookie_server.requests import LAST_ENTRY
from bookie_server.storage.ledger_state import LedgerState
from ledger.wire import v3
from ledger.wire.constants import AUTH_DISABLED_PLUGIN, MASTER_KEY_BYTES
from ledger.wire.entry import ENTRY_HEADER_BYTES, ENTRY_IDS
from ledger.wire.messages import (
    V3_VERSION,
    AuthMessage,
    BookieInfoRequest,
    BookieInfoResponse,
    BookieInfoWanted,
    ForceLedgerRequest,
    ForceLedgerResponse,
    ListEntriesRequest,
    ListEntriesResponse,
    Operation,
    ReadLacRequest,
    ReadLacResponse,
    V3AddRequest,
    V3AddResponse,
    V3ReadRequest,
    V3ReadResponse,
    V3Request,
    V3Response,
    V3ResponseBody,
    WriteLacRequest,
    WriteLacResponse,
)
from ledger.wire.status import Status
