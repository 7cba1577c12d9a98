"""How fast is a sequential read back: entries of a ledger, messages of a log by the batch and one by one?

Written once, read in every round by a fresh reader, in turns with the floor: a source that sends bytes from its
memory to a client that only counts them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from functools import partial

from benchmarks.floors.read_floor import PIECE_BYTES, measure_read_floor
from benchmarks.load import ledger_load, log_load
from benchmarks.load.ledger_load import ledger_client
from benchmarks.options import Options
from benchmarks.report import Report
from benchmarks.rows import Runs
from benchmarks.usage import Stopwatch
from dlog.client import LogClient, connect
from ledger.client import LedgerClient
from ledger.config import Visibility
from ledger.model import LedgerId
from tests.helpers.processes.cluster import running_cluster

_ENTRY_BYTES = 1024
_LOG = "bench"
_ENTRIES = f"{_ENTRY_BYTES} B entries"
_MESSAGES = f"{log_load.MESSAGE_BYTES} B messages"
_FLOOR = "bare source"
_PROCESSOR = {_ENTRIES: "µs/entry", _MESSAGES: "µs/message"}
"""Of processor time: what a busy machine changes least."""
_WRITE_WINDOW_BYTES = 8 * 1024 * 1024


async def run(options: Options) -> Report:
    runs = Runs()
    async with (
        running_cluster(options.directory) as cluster,
        ledger_client(cluster.uri) as ledgers,
        await connect(cluster.uri) as logs,
    ):
        ledger_id = await _write_ledger(ledgers, options.read_bytes)
        await _write_log(logs, options.read_bytes)
        for _ in range(options.rounds):
            floor = await measure_read_floor(options.seconds)
            runs.add(_ENTRIES, _FLOOR, floor / _ENTRY_BYTES)
            runs.add(_MESSAGES, _FLOOR, floor / log_load.MESSAGE_BYTES)
            measure = partial(_measure, runs, [bookie.pid for bookie in cluster.bookies])
            await measure(_ENTRIES, "ledger, read_batch", _read_ledger(ledgers, ledger_id))
            await measure(_MESSAGES, "log, batches()", _read_batches(logs))
            await measure(_MESSAGES, "log, one by one", _read_messages(logs))
    return _report(runs)


async def _measure(
    runs: Runs, bookie_pids: Sequence[int], case: str, contender: str, read: Awaitable[int]
) -> None:
    stopwatch = Stopwatch(bookie_pids)
    found = stopwatch.stop(await read)
    runs.add(case, contender, found.entries_per_s)
    runs.add(case, f"{contender}: client", found.client_us)
    # One bookie serves a sequential read, so the time of all of them is its time.
    runs.add(case, f"{contender}: bookie", found.server_us * len(bookie_pids))


def _report(runs: Runs) -> Report:
    report = Report("read", "How fast is a sequential read back?")
    for case, unit, contenders in (
        (_ENTRIES, "entries/s", {"ledger, read_batch": 120_000.0}),
        (_MESSAGES, "messages/s", {"log, batches()": 1_000_000.0, "log, one by one": 400_000.0}),
    ):
        floor = runs.median(case, _FLOOR)
        report.add(runs.row(case, _FLOOR, unit))
        for contender, target in contenders.items():
            report.add(runs.row(case, contender, unit, floor=floor, target=target))
            for part in ("client", "bookie"):
                report.add(runs.row(case, f"{contender}: {part}", _PROCESSOR[case]))
    return report


async def _write_ledger(client: LedgerClient, size: int) -> LedgerId:
    handle = await client.create(ledger_load.QUORUM, visibility=Visibility.FAST)
    payload = bytes(_ENTRY_BYTES)
    while handle.length < size:
        await handle.wait_for_capacity(_WRITE_WINDOW_BYTES)
        for _ in range(64):
            handle.submit(payload)
    await handle.drain()
    await handle.close()
    return handle.ledger_id


async def _write_log(client: LogClient, size: int) -> None:
    payloads = [bytes(log_load.MESSAGE_BYTES)] * log_load.BATCH
    async with client.open_writer(_LOG, create=True) as writer:
        for _ in range(size // (log_load.MESSAGE_BYTES * log_load.BATCH)):
            await writer.append_many(payloads)


async def _read_ledger(client: LedgerClient, ledger_id: LedgerId) -> int:
    """Entries read and verified, from the first to the last."""
    handle = await client.open(ledger_id)
    count = 0
    while count <= handle.last_readable:
        entries = await handle.read_batch(count, max_entries=PIECE_BYTES, max_bytes=PIECE_BYTES)
        count += len(entries)
    await handle.close()
    return count


async def _read_batches(client: LogClient) -> int:
    """Messages read as columns; their payloads are there, no object is made for a message."""
    count = 0
    async with client.reader(_LOG, start="earliest", until="latest") as reader:
        async for batch in reader.batches():
            count += len(batch.payloads)
    return count


async def _read_messages(client: LogClient) -> int:
    count = 0
    async with client.reader(_LOG, start="earliest", until="latest") as reader:
        async for _ in reader:
            count += 1
    return count
