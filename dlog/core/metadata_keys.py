"""Where a log's values live in the metadata store, and the tags on its ledgers. Pure.

    /dlog/<namespace>/<name>                 name node: current uuid and state; never removed
    /dlog/<namespace>/<name>/<uuid>/record   the record that every change compares and sets
    …/<uuid>/pages/<page>                    pages of the history that the record refers to
    …/<uuid>/cursors/<cursor>                positions of consumers
    …/<uuid>/retention                       what may be trimmed
    …/<uuid>/properties                      texts that programs store with the log
    …/<uuid>/request                         what another client asks of the owner

Recreating a log makes a new uuid and so a new path: an old handle's version can never match
(docs/log-semantics.md#rule-5).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from dlog.model import LogName, Owner
from ledger.digits import whole_number

DEFAULT_ROOT = "/dlog"

TAG_ROOT = "dlog.root"
TAG_LOG_UUID = "dlog.log"
TAG_LOG_NAME = "dlog.name"
TAG_EPOCH = "dlog.epoch"
TAG_OWNER = "dlog.owner"
"""Its instance."""
TAG_OWNER_NAME = "dlog.owner.name"
"""Only if it has one: at most 200 characters (LogConfig.owner_name)."""
TAG_OWNER_PROCESS = "dlog.owner.process"
"""Process id and host: `11@host-a`."""
TAG_CREATED_US = "dlog.created_us"
TAG_WANTED_QUORUM = "dlog.wanted_quorum"
"""Only a ledger has it that was created with fewer bookies than configured."""
TAG_KIND = "dlog.kind"
"""Only a sink's ledgers have one, KIND_STAGING, and keep it once they are listed."""
TAG_SINK_WRITER = "dlog.sink.writer"
TAG_SINK_BATCH = "dlog.sink.batch"
KIND_STAGING = b"staging"

_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PROCESS_ID_MAX = 2**63 - 1


def namespace_key(root: str, namespace: str) -> str:
    return f"{root}/{namespace}"


def name_key(root: str, log: LogName) -> str:
    return f"{root}/{log.namespace}/{log.name}"


def record_key(root: str, log: LogName, log_uuid: str) -> str:
    return f"{name_key(root, log)}/{log_uuid}/record"


def is_log_uuid(text: str) -> bool:
    """Whether this is the part of a key that names one incarnation of a log."""
    return _UUID.fullmatch(text) is not None


def pages_key(root: str, log: LogName, log_uuid: str) -> str:
    return f"{name_key(root, log)}/{log_uuid}/pages"


def page_key(root: str, log: LogName, log_uuid: str, page: str) -> str:
    return f"{pages_key(root, log, log_uuid)}/{page}"


def properties_key(root: str, log: LogName, log_uuid: str) -> str:
    return f"{name_key(root, log)}/{log_uuid}/properties"


def retention_key(root: str, log: LogName, log_uuid: str) -> str:
    return f"{name_key(root, log)}/{log_uuid}/retention"


def request_key(root: str, log: LogName, log_uuid: str) -> str:
    return f"{name_key(root, log)}/{log_uuid}/request"


def cursors_key(root: str, log: LogName, log_uuid: str) -> str:
    return f"{name_key(root, log)}/{log_uuid}/cursors"


def cursor_key(root: str, log: LogName, log_uuid: str, cursor: str) -> str:
    return f"{cursors_key(root, log, log_uuid)}/{cursor}"


def ledger_tags(
    *, root: str, log: LogName, log_uuid: str, epoch: int, owner: Owner, created_us: int
) -> tuple[tuple[str, bytes], ...]:
    """Custom metadata that attributes a ledger found outside every list to one log under one root.

    Source: docs/log-semantics.md#rule-4.
    """
    return (
        (TAG_ROOT, root.encode()),
        (TAG_LOG_UUID, log_uuid.encode()),
        (TAG_LOG_NAME, str(log).encode()),
        (TAG_EPOCH, str(epoch).encode()),
        (TAG_OWNER, owner.instance.encode()),
        *(((TAG_OWNER_NAME, owner.name.encode()),) if owner.name else ()),
        (TAG_OWNER_PROCESS, f"{owner.process_id}@{owner.host}".encode()),
        (TAG_CREATED_US, str(created_us).encode()),
    )


def owner_of(custom: Iterable[tuple[str, bytes]]) -> Owner | None:
    """The owner that the tags of a ledger name, without its start; None if they have no more than its instance.

    Only people read it, so that damaged text is no error.
    """
    tags = {name: value.decode(errors="replace") for name, value in custom}
    if TAG_OWNER not in tags or TAG_OWNER_PROCESS not in tags:
        return None
    process_id, _, host = tags[TAG_OWNER_PROCESS].partition("@")
    return Owner(
        instance=tags[TAG_OWNER],
        name=tags.get(TAG_OWNER_NAME, ""),
        host=host,
        process_id=whole_number(process_id, _PROCESS_ID_MAX) or 0,
    )


def staging_tags(writer_id: str | None, batch: int) -> tuple[tuple[str, bytes], ...]:
    """What the ledgers of a sink have in addition: the batch whose record change is to list them.

    `writer_id` is None for a batch that is not numbered, whose replay cannot be recognised.
    """
    kind = (TAG_KIND, KIND_STAGING)
    if writer_id is None:
        return (kind,)
    return (kind, (TAG_SINK_WRITER, writer_id.encode()), (TAG_SINK_BATCH, str(batch).encode()))
