"""Bytes of a request to a log's owner. Pure.

The frame is that of every value of a log's metadata (metadata_value.py), of kind "Q" and version 1:

    request  [kind, epoch, nonce, requester, state, reason]

The requester has the fields of an owner (log_metadata.py).
"""

from __future__ import annotations

from dlog.format.metadata_value import (
    TEXT_CHARS_MAX,
    array,
    check_canonical,
    choice,
    encode_value,
    integer,
    open_value,
    text,
)
from dlog.format.owner import decode_owner, owner_fields
from dlog.model import OwnerRequest, RequestKind, RequestState

REQUEST_VERSIONS = (1,)
REASON_CHARS_MAX = TEXT_CHARS_MAX
_KIND = b"Q"


def encode_request(request: OwnerRequest) -> bytes:
    fields = [
        request.kind.value,
        request.epoch,
        request.nonce,
        owner_fields(request.requester),
        request.state.value,
        request.reason,
    ]
    return encode_value(_KIND, REQUEST_VERSIONS[-1], fields)


def decode_request(data: bytes) -> OwnerRequest:
    """Read it strictly. RecordFormatError on every damage."""
    _, value = open_value(data, _KIND, REQUEST_VERSIONS)
    kind, epoch, nonce, requester, state, reason = array(value, 6, "request to the owner")
    request = OwnerRequest(
        kind=choice(RequestKind, kind, "kind of a request"),
        epoch=integer(epoch, "epoch of a request"),
        nonce=integer(nonce, "nonce of a request"),
        requester=decode_owner(requester),
        state=choice(RequestState, state, "state of a request"),
        reason=text(reason, "reason of a request"),
    )
    check_canonical(data, encode_request(request))
    return request
