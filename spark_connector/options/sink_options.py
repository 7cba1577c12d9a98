"""Options of the Spark sink, checked before anything is opened. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dlog.core.publication import SinkBatch
from ledger.errors import ConfigurationError
from spark_connector.errors import BadOptionError
from spark_connector.options.values import (
    file_option,
    flag_option,
    log_option,
    name_option,
    number_option,
    required_option,
)

SINK_NAMES = (
    "metadata",
    "namespace",
    "log",
    "path",
    "exactlyOnce",
    "writerId",
    "writeTimeoutMs",
    "passwordFile",
)
BATCH_NAMES = ("batchId",)
OF_SPARK = ("checkpointLocation", "queryName")
"""Spark passes these options of a stream on to its sink."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """Options of one query that writes."""

    metadata: str
    log: str
    namespace: str = "default"
    exactly_once: bool = True
    writer_id: str | None = None
    """None: of a stream the query's id; a batch without it is not recognised when it is written again."""
    batch_id: int | None = None
    """Of a batch; a stream's are numbered by Spark."""
    write_timeout_ms: int = 60_000
    """How long one step may take: the takeover, what a task waits for bookies, the publication."""
    password_file: str | None = None
    """Holds the password of the log, on the driver and on every executor."""
    owner_name: str = "Spark sink"
    """Recorded with the log; the error of a writer that the sink deposes shows it."""

    @property
    def timeout_s(self) -> float:
        return self.write_timeout_ms / 1000

    @property
    def batch(self) -> SinkBatch | None:
        """The batch of a batch query, if its replay can be recognised."""
        if self.writer_id is None or self.batch_id is None:
            return None
        return SinkBatch(writer_id=self.writer_id, number=self.batch_id)


def parse_sink_options(options: Mapping[str, str], *, stream: bool) -> SinkOptions:
    """Check every option of a write.

    Raises:
        BadOptionError: an option is unknown, missing or wrong; the error names it and its valid values.
    """
    given = {name.lower(): value for name, value in options.items()}
    _refuse_unknown(given, stream)
    found = SinkOptions(
        metadata=required_option(given, "metadata", "the address that `dlog standalone` prints"),
        log=log_option(given),
        namespace=name_option("namespace", given.get("namespace", "default")),
        exactly_once=flag_option(given, "exactlyOnce", True),
        writer_id=given.get("writerid"),
        batch_id=number_option(given, "batchId", 0, 0, 2**63 - 1) if "batchid" in given else None,
        write_timeout_ms=number_option(given, "writeTimeoutMs", 60_000, 1, 24 * 3600 * 1000),
        password_file=file_option(given, "passwordFile"),
        owner_name=_owner_name(given, stream),
    )
    _check_together(found, stream)
    return found


def _refuse_unknown(given: Mapping[str, str], stream: bool) -> None:
    names = SINK_NAMES if stream else (*SINK_NAMES, *BATCH_NAMES)
    known = {name.lower() for name in names}
    if stream:
        known |= {name.lower() for name in OF_SPARK}
        if "batchid" in given:
            raise BadOptionError(
                "option 'batchId' is for batch writes: Spark numbers a stream's", option="batchId"
            )
    for name in given:
        if name not in known:
            raise BadOptionError(
                f"option {name!r} is unknown, or is not for writing, which has {', '.join(names)}",
                option=name,
            )


def _check_together(found: SinkOptions, stream: bool) -> None:
    if found.writer_id is not None:
        try:
            SinkBatch(writer_id=found.writer_id, number=0)
        except ConfigurationError as error:
            raise BadOptionError(f"option 'writerId': {error}", option="writerId") from error
    if not found.exactly_once and (found.writer_id is not None or found.batch_id is not None):
        raise BadOptionError(
            "options 'writerId' and 'batchId' are for exactlyOnce=true: leave them out", option="writerId"
        )
    if not stream and (found.writer_id is None) != (found.batch_id is None):
        raise BadOptionError(
            "options 'writerId' and 'batchId' belong together in a batch write: a batch is recognised as written by "
            "both; set both or neither",
            option="batchId",
        )


def _owner_name(given: Mapping[str, str], stream: bool) -> str:
    """As much as is known of the query before its first task."""
    name = given.get("writerid") or (given.get("queryname") if stream else None)
    return f"Spark sink {name}"[:200] if name else "Spark sink"
