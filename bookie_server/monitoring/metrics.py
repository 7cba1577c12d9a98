"""The facts as Prometheus' text, which a registry made for one scrape writes. Needs the extra `metrics`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from prometheus_client.core import CollectorRegistry, CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from bookie_server.monitoring.facts import (
    BookieFacts,
    ClientFacts,
    GarbageFacts,
    ScrubFacts,
    State,
    StorageFacts,
)
from bookie_server.monitoring.response import Response
from bookie_server.storage.scrub.record import ScrubPass

PREFIX = "dlog_bookie_"


def metrics_page(facts: BookieFacts) -> Response:
    registry = CollectorRegistry()
    registry.register(_Scrape(facts))
    return Response(HTTPStatus.OK, generate_latest(registry), CONTENT_TYPE_LATEST)


class _Scrape(Collector):
    """A collector of one scrape."""

    def __init__(self, facts: BookieFacts) -> None:
        self._facts = facts

    def collect(self) -> Iterable[Metric]:
        return families(self._facts)


def families(facts: BookieFacts) -> Iterator[Metric]:
    """All metrics. Those of a part that the bookie does not have are left out."""
    info = {"version": facts.version, "bookie_id": facts.bookie, "cluster": facts.cluster}
    yield _labelled(
        "info", "Version and identity of the bookie; always 1.", list(info), [(list(info.values()), 1)]
    )
    yield _gauge("healthy", "Whether the bookie serves clients: /health answers 200.", facts.state.is_healthy)
    yield _gauge("writable", "Whether the bookie takes new entries.", facts.state is State.WRITABLE)
    yield _gauge("uptime_seconds", "Time since the process began to serve these pages.", facts.uptime_s)
    if facts.storage is not None:
        yield from _of_storage(facts.storage)
    if facts.clients is not None:
        yield from _of_clients(facts.clients)
    if facts.garbage is not None:
        yield from _of_garbage(facts.garbage)
    if facts.scrub is not None:
        yield from _of_scrub(facts.scrub)
    if facts.repair is not None:
        yield from _of_repair(facts.repair)


def _of_storage(storage: StorageFacts) -> Iterator[Metric]:
    counts = storage.counts
    yield _gauge("in_limbo", "Whether entries may be lost here: docs/operations.md, Limbo.", storage.in_limbo)
    yield _gauge("missing_files", "Files with entries that were missing at the start.", storage.missing_files)
    sizes = [([str(each.directory)], each.total_bytes) for each in storage.directories]
    free = [([str(each.directory)], each.free_bytes) for each in storage.directories]
    failed = [([each], 1) for each in storage.failed_directories]
    # What was measured before it failed may still be there.
    working = [
        ([str(each.directory)], 0)
        for each in storage.directories
        if str(each.directory) not in storage.failed_directories
    ]
    by = ["directory"]
    yield _labelled("directory_size_bytes", "Size of the file system of a directory.", by, sizes)
    yield _labelled(
        "directory_free_bytes", "Free bytes of the file system of a directory, as measured last.", by, free
    )
    yield _labelled("directory_failed", "Whether a ledger directory has failed.", by, [*working, *failed])
    yield _gauge("journal_queued_bytes", "Bytes that wait for the journal.", counts.journal_queued_bytes)
    yield _counter("journal_appended_bytes", "Bytes given to the journal.", counts.journal_appended_bytes)
    yield _counter("journal_groups", "Group commits of the journal, each one sync.", counts.journal_groups)
    yield _gauge("cached_bytes", "Memory of entries that are in no entry log yet.", counts.cached_bytes)
    yield _counter("added_entries", "Entries accepted; a repeated add does not count.", counts.entries_added)
    yield _counter("checkpoints", "Completed checkpoints.", counts.checkpoints)
    if counts.entry_logs is not None and counts.journal_files is not None:
        yield _gauge("entry_logs", "Entry logs that hold entries.", counts.entry_logs)
        yield _gauge(
            "journal_files", "Journal files that hold entries which are written once.", counts.journal_files
        )
    yield _counter("deleted_ledgers", "Ledgers deleted by garbage collection.", counts.ledgers_deleted)
    yield _counter(
        "removed_files",
        "Entry logs and journal files removed: by garbage collection and compaction.",
        counts.files_removed,
    )
    yield _counter("compactions", "Completed compaction runs.", counts.compactions)
    yield _counter("compacted_bytes", "Bytes that compactions have copied.", counts.compacted_bytes)


def _of_clients(clients: ClientFacts) -> Iterator[Metric]:
    yield _gauge("connections", "Open connections of clients.", clients.connections)
    yield _counter("response_bytes", "Bytes of responses to clients.", clients.sent_bytes)
    yield _counter(
        "read_requests", "Requests for an entry or a batch; long polls do not count.", clients.read_requests
    )
    yield _counter("damaged_reads", "Reads that met damage or a lost entry.", clients.damaged_reads)


def _of_garbage(garbage: GarbageFacts) -> Iterator[Metric]:
    yield _counter("garbage_collections", "Garbage collections.", garbage.passes)
    yield _counter(
        "garbage_collection_failures", "Garbage collections that ended early.", garbage.failed_passes
    )
    yield _gauge(
        "deletable_ledgers",
        "Ledgers missing from the metadata, and not deleted yet.",
        garbage.ledgers_waiting,
    )


def _of_scrub(scrub: ScrubFacts) -> Iterator[Metric]:
    passes = {"current": scrub.current, "last": scrub.last}
    known = {name: each for name, each in passes.items() if each is not None}
    yield _counter("scrub_passes", "Passes of the scrubber completed since the start.", scrub.passes)
    for name, text, value in _SCRUB:
        samples = [([which], value(each)) for which, each in known.items()]
        yield _labelled(name, text, ["pass"], samples)
    if scrub.last is not None and scrub.last.ended_ms is not None:
        yield _gauge(
            "scrub_last_end_timestamp_seconds",
            "When the last complete pass ended (since 1970).",
            scrub.last.ended_ms / 1000,
        )


def _of_repair(worker: Mapping[str, Any]) -> Iterator[Metric]:
    yield _counter(
        "repaired_ledgers", "Ledgers repaired by the worker in this process.", worker["ledgers_repaired"]
    )
    yield _gauge(
        "repair_waiting_ledgers",
        "Ledgers that the worker could not repair, and tries again.",
        worker["ledgers_waiting"],
    )
    yield _gauge("repair_current_ledgers", "Ledgers that the worker repairs now.", len(worker["ledgers"]))
    # Gauges: what a copy that fails has added is taken back, which a counter must not do.
    yield _gauge("repair_copied_entries", "Entries that the worker has copied.", worker["entries_copied"])
    yield _gauge("repair_copied_bytes", "Payload bytes that the worker has copied.", worker["bytes_copied"])


_SCRUB: tuple[tuple[str, str, Callable[[ScrubPass], float]], ...] = (
    (
        "scrub_start_timestamp_seconds",
        "When the pass of the scrubber began (since 1970).",
        lambda each: each.began_ms / 1000,
    ),
    ("scrub_blocks", "Blocks that the pass has read.", lambda each: each.blocks),
    ("scrub_bytes", "Bytes of the blocks that the pass has read.", lambda each: each.block_bytes),
    ("scrub_damaged_blocks", "Damaged blocks that the pass has found.", lambda each: each.damaged_blocks),
    (
        "scrub_unindexed_blocks",
        "Intact blocks with entries that the index had lost.",
        lambda each: each.unindexed_blocks,
    ),
    (
        "scrub_restored_blocks",
        "Blocks with such entries that the index leads to again.",
        lambda each: each.restored_blocks,
    ),
    (
        "scrub_index_damaged",
        "Whether the pass could not read parts of the index.",
        lambda each: each.index_damaged,
    ),
)
"""Of the pass under way, and of the last complete one, with the label `pass`."""


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(PREFIX + name, text, value=float(value))


def _counter(name: str, text: str, value: float) -> Metric:
    """Its sample's name ends in `_total`."""
    return CounterMetricFamily(PREFIX + name, text, value=float(value))


def _labelled(
    name: str, text: str, labels: Sequence[str], samples: Iterable[tuple[Sequence[str], float]]
) -> Metric:
    family = GaugeMetricFamily(PREFIX + name, text, labels=labels)
    for values, value in samples:
        family.add_metric(values, float(value))
    return family
