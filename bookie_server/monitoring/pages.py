"""Which page a path has: health for programs that watch over processes, metrics for Prometheus, state for people."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from http import HTTPStatus
from typing import Any

from bookie_server.disk.disk_limits import total_space
from bookie_server.monitoring.facts import BookieFacts, ClientFacts, GarbageFacts, ScrubFacts, StorageFacts
from bookie_server.monitoring.metrics import metrics_page
from bookie_server.monitoring.request import Request
from bookie_server.monitoring.response import Response, json_response, refusal


def answer(facts: Callable[[], BookieFacts], request: Request) -> Response:
    """What the request gets; `facts` are collected for it."""
    page = PAGES.get(request.path)
    return refusal(HTTPStatus.NOT_FOUND) if page is None else page(facts())


def health_page(facts: BookieFacts) -> Response:
    """200 while the bookie serves clients. A read-only one does: it needs attention, and no restart."""
    fields: dict[str, object] = {"state": facts.state, "bookie": facts.bookie}
    reason = facts.failure or (facts.storage and facts.storage.shortage)
    if reason:
        fields["reason"] = reason
    healthy = facts.state.is_healthy
    return json_response(fields, HTTPStatus.OK if healthy else HTTPStatus.SERVICE_UNAVAILABLE)


def state_page(facts: BookieFacts) -> Response:
    """All facts. The first ones have the names that `bookie info --data -o json` gives them."""
    return json_response(state_fields(facts))


def state_fields(facts: BookieFacts) -> dict[str, Any]:
    storage = facts.storage
    failed = {} if storage is None else storage.failed_directories
    working = [each for each in facts.ledger_dirs if each not in failed]
    usages = (
        [] if storage is None else [each for each in storage.directories if str(each.directory) in working]
    )
    total_bytes, free_bytes = total_space(usages) if usages else (None, None)
    return {
        "bookie": facts.bookie,
        "cluster": facts.cluster,
        "journal_dir": facts.journal_dir,
        "ledger_dir": ", ".join(working),
        "failed_ledger_dir": ", ".join(failed) or None,
        "state": facts.state,
        "in_limbo": storage is not None and storage.in_limbo,
        "total_bytes": total_bytes,
        "free_bytes": free_bytes,
        "repair": facts.repair,
        "failure": facts.failure,
        "version": facts.version,
        "uptime_s": facts.uptime_s,
        "ledger_dirs": facts.ledger_dirs,
        "storage": None if storage is None else _storage_fields(storage),
        "clients": _fields(facts.clients),
        "garbage": _fields(facts.garbage),
        "scrub": _fields(facts.scrub),
    }


def _storage_fields(storage: StorageFacts) -> dict[str, Any]:
    directories = [
        {"directory": str(each.directory), "total_bytes": each.total_bytes, "free_bytes": each.free_bytes}
        for each in storage.directories
    ]
    return {**asdict(storage), "directories": directories}


def _fields(part: ClientFacts | GarbageFacts | ScrubFacts | None) -> dict[str, Any] | None:
    return None if part is None else asdict(part)


PAGES: dict[str, Callable[[BookieFacts], Response]] = {
    "/health": health_page,
    "/metrics": metrics_page,
    "/state": state_page,
}
