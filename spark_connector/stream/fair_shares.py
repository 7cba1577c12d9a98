"""Divides the limit of a micro-batch among the logs that have messages. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def fair_shares(pending: Mapping[str, int], most: int, order: Sequence[str]) -> dict[str, int]:
    """How much of each log is read: in proportion to what is pending, `most` altogether.

    `pending`: of logs that have something. `order`: the same logs, and who comes first where something cannot be
    divided. Each log gets at least 1, or if there are more logs than `most`, the first ones do; none gets more than it
    has, and all together get `most` or everything.
    """
    total = sum(pending.values())
    if total <= most:
        return dict(pending)
    if len(pending) > most:
        return {log: 1 if number < most else 0 for number, log in enumerate(order)}
    left, rest = most - len(pending), total - len(pending)
    quotients = {log: divmod(left * (pending[log] - 1), rest) for log in order}
    found = {log: 1 + whole for log, (whole, _) in quotients.items()}
    over = most - sum(found.values())
    for log in sorted(order, key=lambda each: quotients[each][1], reverse=True)[:over]:
        found[log] += 1
    return found
