"""What does a bookie spend on an add and on an explicit LAC, of many ledgers and of one?

One bookie process, and a client that sends frames and waits until all of them are answered. What counts is the
bookie's processor time, so other programs disturb it less than a rate. The floor is an add of a single ledger in a
long run. What a client and three bookies need together is measured by `many_logs`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from itertools import count, islice

from benchmarks.options import Options
from benchmarks.report import Report
from benchmarks.rows import Runs
from benchmarks.usage import cpu_s
from ledger.model import DigestType
from ledger.wire.constants import (
    ADD_HEADER,
    ADD_REQUEST_START,
    ADD_RESPONSE,
    ADD_RESPONSE_BODY_BYTES,
)
from ledger.wire.digest import make_digester, master_key
from ledger.wire.status import Status
from ledger.wire.write_lac import LedgerLacs
from tests.helpers.processes.cluster import running_cluster
from tests.helpers.processes.python import Child

_PAYLOAD = bytes(100)
_WINDOW = 2000
"""Entries of one ledger in flight."""
_PORTION = 64
"""Ledgers of which the entries arrive together while neither side is busy all the time."""
_CASE = "processor time of one request"
_KEY = master_key(b"")
_DIGESTER = make_digester(DigestType.CRC32C, b"")

Round = tuple[int, bytes, bytes]
"""How many requests, their frames, and the responses to all of them."""


async def run(options: Options) -> Report:
    report, runs = Report("bookie", "What do an add and an explicit LAC cost a bookie?"), Runs()
    many, few, unused = options.busy_logs, min(_PORTION, options.busy_logs), count(1)
    floor, contenders = f"adds of one ledger, {_WINDOW:,} at a time", list[str]()
    async with running_cluster(options.directory, bookies=1) as cluster:
        for _ in range(options.rounds):
            rounds = {
                floor: _adds_of_one_ledger(next(unused)),
                f"adds of {many} ledgers, together": _adds(_take(unused, many), many),
                f"adds of {many} ledgers, {few} at a time": _adds(_take(unused, many), few),
                f"explicit LACs of {many} ledgers, together": _lacs(_take(unused, many)),
            }
            contenders = list(rounds)
            for contender, each in rounds.items():
                runs.add(_CASE, contender, await _spent_us(cluster.bookies[0], each, options.seconds))
    for contender in contenders:
        report.add(runs.row(_CASE, contender, "µs", floor=runs.median(_CASE, floor)))
    return report


def _take(numbers: Iterator[int], size: int) -> list[int]:
    return list(islice(numbers, size))


async def _spent_us(bookie: Child, rounds: Iterator[Round], seconds: float) -> float:
    """Processor time of the bookie for each request, all of its threads included."""
    reader, writer = await asyncio.open_connection(bookie.host, bookie.port)
    requests, before, until = 0, cpu_s(bookie.pid), time.perf_counter() + seconds
    while time.perf_counter() < until:
        number, frames, responses = next(rounds)
        writer.write(frames)
        found = await reader.readexactly(len(responses))
        assert found == responses, "the bookie accepts each of them, and answers in their order"
        requests += number
    spent_s = cpu_s(bookie.pid) - before
    writer.close()
    await writer.wait_closed()
    return spent_s / requests * 1e6


# ---- rounds


def _adds_of_one_ledger(ledger_id: int) -> Iterator[Round]:
    for first in count(0, _WINDOW):
        yield _round([_add(ledger_id, first + each) for each in range(_WINDOW)])


def _adds(ledger_ids: list[int], portion: int) -> Iterator[Round]:
    """An entry for each ledger, then the next one for each."""
    for entry_id in count():
        for start in range(0, len(ledger_ids), portion):
            yield _round([_add(each, entry_id) for each in ledger_ids[start : start + portion]])


def _lacs(ledger_ids: list[int]) -> Iterator[Round]:
    ledgers = [LedgerLacs(each, _KEY, _DIGESTER.lac_packet_bytes) for each in ledger_ids]
    txn_ids = count()
    for lac in count():
        writes = [
            ledger.write(next(txn_ids), lac, _DIGESTER.lac_packet(ledger_id, lac))
            for ledger_id, ledger in zip(ledger_ids, ledgers, strict=True)
        ]
        yield _round([(each.request, each.success) for each in writes])


def _round(exchanges: list[tuple[bytes, bytes]]) -> Round:
    requests, responses = zip(*exchanges, strict=True)
    return len(exchanges), b"".join(requests), b"".join(responses)


def _add(ledger_id: int, entry_id: int) -> tuple[bytes, bytes]:
    length = (entry_id + 1) * len(_PAYLOAD)
    start = _DIGESTER.header_and_digest(ledger_id, entry_id, entry_id - 1, length, (_PAYLOAD,))
    body_bytes = ADD_REQUEST_START.size - 4 + len(start) + len(_PAYLOAD)
    request = ADD_REQUEST_START.pack(body_bytes, ADD_HEADER, _KEY) + start + _PAYLOAD
    response = ADD_RESPONSE.pack(ADD_RESPONSE_BODY_BYTES, ADD_HEADER, Status.EOK, ledger_id, entry_id)
    return request, response
