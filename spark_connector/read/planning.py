"""From options to partitions: reads the metadata and ledgers of the logs once and fixes the result. Changes nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from dlog.errors import LogNotFoundError
from dlog.metadata.log_ref import LogRef
from dlog.model import EARLIEST_ID, LogName, MessageId
from dlog.read.time_seek import first_at_or_after
from dlog.together import each
from spark_connector.cluster import Cluster, open_cluster
from spark_connector.extents.extent_reader import ExtentReader
from spark_connector.extents.partitions import Extent, Partition
from spark_connector.extents.readable import readable_extents, tail_of
from spark_connector.options.bounds import bound_of, check_logs
from spark_connector.options.log_choice import LogPattern
from spark_connector.options.read_options import ReadOptions
from spark_connector.read.bounds import bounded
from spark_connector.read.partitioning import partitioned
from spark_connector.retrying import retrying


@dataclass(frozen=True, slots=True)
class Plan:
    """The partitions, and the canonical address at which tasks find the cluster."""

    uri: str
    partitions: list[Partition] = field(repr=False)
    """Not shown: asyncio.run makes the text of its result, which of 100,000 ledgers takes half a second."""


async def plan_read(options: ReadOptions) -> Plan:
    """Resolve the bounds of a batch read in each of its logs, and split it."""
    async with open_cluster(options.metadata, options.read_timeout_ms, options.password_file) as cluster:
        refs = await found_logs(options, cluster)
        names = [ref.name.name for ref in refs]
        check_logs("startingId", options.starting, names)
        check_logs("endingId", options.ending, names)

        async def part(ref: LogRef) -> list[Extent]:
            read = partial(_range, ref, options, cluster)
            try:
                return await retrying(read, options.read_timeout_ms, f"log {ref.name}")
            except LogNotFoundError:
                if isinstance(options.logs, LogPattern):
                    return []  # deleted since it was listed, or being deleted
                raise

        extents = [extent for of_log in await each(refs, part) for extent in of_log]
        reader = ExtentReader(cluster.ledgers, options.read_timeout_ms, cluster.password)
        return Plan(cluster.store.uri, await partitioned(extents, options, reader, count=True))


async def found_logs(options: ReadOptions, cluster: Cluster) -> list[LogRef]:
    """The logs to read, sorted by name.

    Raises:
        LogNotFoundError: one that is named does not exist.
    """
    choice, logs = options.logs, cluster.logs

    async def find(name: str) -> LogRef | None:
        log = LogName(namespace=options.namespace, name=name)
        try:
            return await retrying(lambda: logs.find(log), options.read_timeout_ms, f"log {log}")
        except LogNotFoundError:
            if isinstance(choice, LogPattern):
                return None  # a name that is used no more
            raise

    if isinstance(choice, LogPattern):
        used = await retrying(
            lambda: logs.used_names(options.namespace),
            options.read_timeout_ms,
            f"the names of logs in {options.namespace}",
        )
        names = choice.matching(used)
    else:
        names = list(choice.names)
    return [ref for ref in await each(names, find) if ref is not None]


async def _range(ref: LogRef, options: ReadOptions, cluster: Cluster) -> list[Extent]:
    """What of a log is read."""
    name = ref.name.name
    starting, ending = bound_of(options.starting, name), bound_of(options.ending, name)

    async def at_time(time_us: int) -> MessageId:
        return await first_at_or_after(time_us, cluster.logs, ref, cluster.ledgers, cluster.password)

    if options.ending_time_us is not None:
        ending = await at_time(options.ending_time_us)
    if options.starting_time_us is not None:
        # The position of a time to come is the tail: what is appended after that is older than the time.
        _, tail = await tail_of(cluster.logs, ref, cluster.ledgers, cluster.password)
        ending = tail if ending == "latest" else min(ending, tail)
        starting = await at_time(options.starting_time_us)
    first = starting if isinstance(starting, MessageId) else EARLIEST_ID
    readable = await readable_extents(cluster.logs, ref, cluster.ledgers, first, password=cluster.password)
    if options.starting_time_us is not None and isinstance(starting, MessageId):
        starting = max(starting, readable.record.trim_before)  # trimmed since the time was looked up
    return bounded(name, readable, starting, ending)
