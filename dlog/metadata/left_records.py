"""Finds what an interrupted deletion of a log has left in the metadata store, after the log's name has ended.

Invariant: what is found here can never be reached again. A uuid names one log, whose name goes from it to another uuid
or to DELETED and never back. Two things prove that the name had this uuid once: a record in state DELETING, and any
other value, since all of them are written for a log that was found by its name. A record in another state proves
nothing: it may be of a log that is being created, whose name is set after its record (docs/log-semantics.md#rule-5).
"""

from __future__ import annotations

import logging

from dlog.errors import RecordFormatError
from dlog.metadata.log_ref import LogRef
from dlog.metadata.store import LogMetadataStore
from dlog.model import LogName, LogState, NameNode, NameState
from dlog.together import each
from ledger.errors import InvalidNameError, LayoutMismatchError
from ledger.model import Versioned

_log = logging.getLogger(__name__)


async def left_records(logs: LogMetadataStore) -> list[LogRef]:
    """The deleted logs of which something is left, under any name in the root of `logs`.

    Raises:
        MetadataUnavailableError: the metadata store cannot be reached.
    """
    found: list[LogRef] = []
    for namespace in await logs.namespaces():
        names = [(namespace, name) for name in await logs.used_names(namespace)]
        for some in await each(names, lambda name: _left_of_name(logs, *name)):
            found += some
    return found


async def _left_of_name(logs: LogMetadataStore, namespace: str, name: str) -> list[LogRef]:
    try:
        log = LogName(namespace=namespace, name=name)
    except InvalidNameError:
        return []  # another program's
    try:
        named = await logs.read_name(log)
        return [
            ref
            for ref in await logs.incarnations(log)
            if not _refers(named, ref) and await _is_left(logs, ref)
        ]
    except (RecordFormatError, LayoutMismatchError) as error:
        _log.warning("what is left of former logs of the name %s stays: %s", log, error)
        return []


async def _is_left(logs: LogMetadataStore, ref: LogRef) -> bool:
    # The name last: what was read before was written while the name had this uuid, or earlier.
    values = await logs.values_of(ref)
    record = await logs.read_or_none(ref)
    was_named = bool(values) if record is None else record.value.state is LogState.DELETING
    if not was_named:
        return False
    named = await logs.read_name(ref.name)
    return named is not None and not _refers(named, ref)


def _refers(named: Versioned[NameNode] | None, ref: LogRef) -> bool:
    return named is not None and named.value == NameNode(log_uuid=ref.log_uuid, state=NameState.ACTIVE)
