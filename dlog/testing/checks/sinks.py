"""What sinks promise: each batch of a query is in the log once, whole, and in the order of its number.

Source: docs/log-semantics.md#rule-37.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

RowsOf = Callable[[str, int], Sequence[Sequence[bytes]]]
"""The messages of a query's batch, by task. Each begins with query, batch and task, separated by spaces."""


def c22_each_batch_of_a_sink_is_in_the_log_once_and_whole(
    log: Sequence[bytes], published: Mapping[str, int], rows_of: RowsOf
) -> Iterator[str]:
    """`log`: all that was ever in it, in order. `published`: the highest batch of each query that certainly is."""
    for query, through in published.items():
        batches: dict[int, dict[int, list[bytes]]] = {}
        for payload in log:
            if payload.startswith(query.encode() + b" "):
                number, task = map(int, payload.split(b" ")[1:3])
                batches.setdefault(number, {}).setdefault(task, []).append(payload)
        if list(batches) != list(range(len(batches))) or len(batches) <= through:
            yield f"{query} has batches {list(batches)}, and published up to {through}"
        for number, tasks in batches.items():
            expected = dict(enumerate(map(list, rows_of(query, number))))
            if tasks != expected:
                yield f"batch {number} of {query} is {tasks}, not {expected}"
