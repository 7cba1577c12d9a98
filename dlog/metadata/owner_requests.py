"""Requests to the owners of logs, in the metadata store: asked, read, answered.

A request is under a key of its own; changing the record without changing its content makes the owner read it. So an
owner that is asked nothing does next to nothing for it (docs/log-semantics.md#rule-22b).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dlog.core import metadata_keys
from dlog.errors import RecordFormatError
from dlog.format.owner_request import REASON_CHARS_MAX, decode_request, encode_request
from dlog.metadata.log_ref import LogRef
from dlog.metadata.value import change_value, read_value
from dlog.model import OwnerRequest, RequestKind, RequestState
from ledger.environment import Environment
from ledger.metadata.store import MetadataStore
from ledger.model import Versioned

_MayReplace = Callable[[OwnerRequest | None], bool]


class OwnerRequests:
    """The request to the owner of any log: there is one at a time."""

    def __init__(self, store: MetadataStore, environment: Environment) -> None:
        self._store = store
        self._environment = environment

    async def read(self, ref: LogRef) -> OwnerRequest | None:
        """The newest request, read linearizably; None if there was none, or it is damaged: another may replace it."""
        found = await read_value(self._store, _key(ref))
        return None if found is None else _decoded(found.value)

    async def ask(self, ref: LogRef, request: OwnerRequest) -> OwnerRequest:
        """Put this request in the place of an earlier one, and return what is there.

        An open one to the same owner stays, and so does a rotation in progress if this one asks for another.

        Raises:
            ContendedError: others changed it in every round.
            MetadataUnavailableError: nothing was asked.
            MetadataOutcomeUnknownError: it may have been asked.
        """
        return await self._change(ref, request, lambda found: found is None or not _waits(found, request))

    async def answer(self, ref: LogRef, request: OwnerRequest, state: RequestState, reason: str = "") -> bool:
        """Set how far this request is; False if another one has replaced it.

        Raises:
            ContendedError: others changed it in every round.
            MetadataUnavailableError: it was not answered.
            MetadataOutcomeUnknownError: it may have been answered.
        """
        answer = replace(request, state=state, reason=reason[:REASON_CHARS_MAX])
        there = await self._change(
            ref, answer, lambda found: found is not None and found.nonce == answer.nonce
        )
        return there == answer

    async def _change(self, ref: LogRef, new: OwnerRequest, may_replace: _MayReplace) -> OwnerRequest:
        value = encode_request(new)

        async def decide(found: Versioned[bytes] | None) -> bytes | None:
            if found is not None and found.value == value:
                return None
            return value if may_replace(None if found is None else _decoded(found.value)) else None

        subject = f"the request to the owner of log {ref}"
        there = await change_value(self._store, self._environment, _key(ref), subject, decide)
        return new if there is None else _decoded(there.value) or new


def _waits(found: OwnerRequest, request: OwnerRequest) -> bool:
    if found.epoch != request.epoch:
        return False
    rotating = found.kind is request.kind is RequestKind.ROTATE and found.state is RequestState.SEEN
    return rotating or found.state is RequestState.OPEN


def _decoded(value: bytes) -> OwnerRequest | None:
    try:
        return decode_request(value)
    except RecordFormatError:
        return None


def _key(ref: LogRef) -> str:
    return metadata_keys.request_key(ref.root, ref.name, ref.log_uuid)
