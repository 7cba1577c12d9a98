"""Executes the read of one entry or batch: replicas are asked one after another until one has it.

Protocol: docs/bookkeeper.md#speculative-reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from ledger.buggify import buggify
from ledger.core.read import EntryRead, Verdict
from ledger.model import BookieId
from ledger.reading.bookie_reads import BookieAnswer
from ledger.tasks import start_task


async def speculative_read(
    machine: EntryRead,
    ask: Callable[[BookieId], Coroutine[Any, Any, BookieAnswer]],
    speculative_s: float,
    failures: list[BookieAnswer],
) -> tuple[BookieId, BookieAnswer] | None:
    """The replica that has it and its answer; None once the machine's verdict is another.

    The next replica is asked after every answer that is no copy, and in addition to one that is slow. Answers that are
    no copy are added to `failures`. Requests still pending at the end are cancelled.
    """
    if buggify("client.early-speculation"):
        speculative_s = 0.0
    tasks: dict[asyncio.Task[BookieAnswer], BookieId] = {}
    try:
        while machine.verdict is Verdict.PENDING:
            if (replica := machine.ask_next()) is not None:
                tasks[start_task(ask(replica))] = replica
            # With every replica asked, only an answer changes anything: each request has a timeout of its own.
            timeout_s = None if replica is None else speculative_s
            await asyncio.wait(tasks, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            # In the order in which they were asked: `wait` returns a set, whose order differs between processes.
            for task in [each for each in tasks if each.done()]:
                replica, answer = tasks.pop(task), task.result()
                if machine.on_answer(replica, answer.answer) is Verdict.FOUND:
                    return replica, answer
                failures.append(answer)
        return None
    finally:
        for task in tasks:
            task.cancel()
