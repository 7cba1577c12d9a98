"""The columns of a log, by name.

`message_id` is the 20-byte form of the id, so sorting the column sorts the log.
A null `key` differs from an empty one; a null `value` is a tombstone; `producer_id` and `sequence` are null if no
producer appended the message. spark_connector/read/schema.py has the same for Spark.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from dlog.model import MessageId
from ledger.arguments import require_type
from ledger.errors import ConfigurationError

_ID_BYTES = len(MessageId(0, 0, 0).to_bytes())

_HEADER = pa.struct(
    [pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary(), nullable=False)]
)

_FIELDS = {
    field.name: field
    for field in (
        pa.field("log", pa.string(), nullable=False),
        pa.field("message_id", pa.binary(_ID_BYTES), nullable=False),
        pa.field("ledger_id", pa.int64(), nullable=False),
        pa.field("entry_id", pa.int64(), nullable=False),
        pa.field("batch_index", pa.int32(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("publish_time", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("headers", pa.list_(pa.field("element", _HEADER, nullable=False)), nullable=False),
        pa.field("producer_id", pa.binary()),
        pa.field("sequence", pa.int64()),
    )
}
_ON_REQUEST = ("headers", "producer_id", "sequence")
"""Headers cost a step for each message; producers few logs have."""


def read_schema(columns: Sequence[str] | None = None) -> pa.Schema:
    """The schema of these columns, in this order; without a choice, of those not on request.

    Raises:
        ConfigurationError: a column is unknown, named twice or no text, or there is none.
    """
    if columns is None:
        return pa.schema([field for name, field in _FIELDS.items() if name not in _ON_REQUEST])
    require_type("columns", columns, list, tuple)
    if not columns:
        raise ConfigurationError(f"columns is empty: name at least one of {', '.join(_FIELDS)}")
    for number, name in enumerate(columns):
        require_type("a name in columns", name, str)
        if name not in _FIELDS:
            raise ConfigurationError(f"column {name!r} is unknown: use {', '.join(_FIELDS)}")
        if name in columns[:number]:
            raise ConfigurationError(f"column {name!r} is named twice in columns: name it once")
    return pa.schema([_FIELDS[name] for name in columns])
