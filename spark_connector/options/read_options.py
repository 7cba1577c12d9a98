"""Options of the Spark source, checked before anything is opened. Pure.

Those of streams only: `stream_options.py`; those of the sink: `sink_options.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spark_connector.errors import BadOptionError
from spark_connector.options.bounds import (
    Ending,
    Starting,
    check_order,
    ending_option,
    starting_option,
    time_option,
)
from spark_connector.options.log_choice import LogChoice, log_choice
from spark_connector.options.values import (
    file_option,
    flag_option,
    name_option,
    number_option,
    required_option,
)

NAMES = (
    "metadata",
    "namespace",
    "log",
    "path",
    "logs",
    "logsPattern",
    "startingId",
    "endingId",
    "startingTimestamp",
    "endingTimestamp",
    "includeHeaders",
    "includeProducer",
    "minPartitions",
    "targetPartitionBytes",
    "maxRecordsPerPartition",
    "batchRows",
    "readTimeoutMs",
    "passwordFile",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Options of one batch read."""

    metadata: str
    logs: LogChoice
    namespace: str = "default"
    starting: Starting = "earliest"
    ending: Ending = "latest"
    starting_time_us: int | None = None
    """Of each log, the first message appended at or after it is where the read begins, whatever `starting` is."""
    ending_time_us: int | None = None
    """Of each log, the first message appended at or after it is not read any more, whatever `ending` is."""
    include_headers: bool = False
    include_producer: bool = False
    partitions_min: int = 1
    partition_bytes: int = 64 * 1024 * 1024
    """A Spark task has a fixed cost of some 50 ms; with 64 MiB that is less than a tenth of its work."""
    partition_rows_max: int | None = None
    """Messages of a task, at most."""
    batch_rows: int = 8192
    """The fastest of the sizes measured, 1,024 to 65,536 rows."""
    read_timeout_ms: int = 60_000
    """How long a task waits for one read before the query fails."""
    password_file: str | None = None
    """Holds the password of the logs, on the driver and on every executor."""


def parse_options(options: Mapping[str, str]) -> ReadOptions:
    """Check every option that batch reads and streams have.

    Raises:
        BadOptionError: an option is unknown, missing or wrong; the error names it and its valid values.
    """
    given = {name.lower(): value for name, value in options.items()}
    _refuse_unknown(given)
    metadata = required_option(given, "metadata", "the address that `dlog standalone` prints")
    logs = log_choice(given)
    starting, ending = starting_option(given, logs), ending_option(given, logs)
    starting_time_us = time_option(given, "startingTimestamp")
    ending_time_us = time_option(given, "endingTimestamp")
    if starting_time_us is None and ending_time_us is None:  # otherwise an id is not used
        check_order(starting, ending, logs)
    if starting_time_us is not None and ending_time_us is not None and starting_time_us > ending_time_us:
        raise BadOptionError(
            f"startingTimestamp {given['startingtimestamp']} is after endingTimestamp {given['endingtimestamp']}: swap "
            "them",
            option="startingTimestamp",
        )
    return ReadOptions(
        metadata=metadata,
        logs=logs,
        namespace=name_option("namespace", given.get("namespace", "default")),
        starting=starting,
        ending=ending,
        starting_time_us=starting_time_us,
        ending_time_us=ending_time_us,
        include_headers=flag_option(given, "includeHeaders", False),
        include_producer=flag_option(given, "includeProducer", False),
        partitions_min=number_option(given, "minPartitions", 1, 1, 100_000),
        partition_bytes=number_option(given, "targetPartitionBytes", 64 * 1024 * 1024, 1, 2**40),
        partition_rows_max=number_option(given, "maxRecordsPerPartition", 1, 1, 2**62)
        if "maxrecordsperpartition" in given
        else None,
        batch_rows=number_option(given, "batchRows", 8192, 1, 1_000_000),
        read_timeout_ms=number_option(given, "readTimeoutMs", 60_000, 1, 24 * 3600 * 1000),
        password_file=file_option(given, "passwordFile"),
    )


def _refuse_unknown(given: Mapping[str, str]) -> None:
    known = {name.lower() for name in NAMES}
    for name in given:
        if name not in known:
            raise BadOptionError(
                f"option {name!r} is unknown, or is not for batch reads, which have {', '.join(NAMES)}",
                option=name,
            )
