"""The metadata cache of threads. What both APIs have in common: test_parity.py."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from dlog.errors import CallTimeoutError, ForkedError
from ledger.errors import ConfigurationError
from tests.helpers.log.blocking_log import blocking_log


def test_a_wait_without_a_change_ends_after_its_time() -> None:
    with blocking_log() as log, log.client().metadata_cache() as cache:
        with pytest.raises(CallTimeoutError, match="wait_for_change did not end within"):
            cache.wait_for_change(cache.snapshot, timeout_s=0.05)
        assert len(cache.snapshot.bookies.writable) == 3


def test_threads_read_it_while_it_changes_and_all_waits_end() -> None:
    with blocking_log() as log, ThreadPoolExecutor() as threads:
        client = log.client()
        with client.metadata_cache() as cache:
            cache.follow_logs(f"log-{number}" for number in range(4))
            ready = threading.Barrier(4)

            def wait_for_all() -> int:
                snapshot = cache.snapshot
                ready.wait(10)
                while len(snapshot.logs) < 4:
                    snapshot = cache.wait_for_change(snapshot, timeout_s=10)
                return len(cache.snapshot.logs)

            waiting = [threads.submit(wait_for_all) for _ in range(3)]
            ready.wait(10)
            for number in range(4):
                client.create(f"log-{number}")
            assert [each.result(10) for each in waiting] == [4, 4, 4]
            unchanged = cache.snapshot
            last = threads.submit(cache.wait_for_change, unchanged, timeout_s=10)
        with pytest.raises(ConfigurationError, match="is closed"):
            last.result(10)
        assert len(unchanged.logs) == 4


def test_in_a_forked_process_it_is_refused() -> None:
    with blocking_log() as log:
        client = log.client()
        cache = client.metadata_cache()
        cache._thread.usable, cache._thread.forked = False, True  # as after a fork
        try:
            with pytest.raises(ForkedError):
                cache.snapshot  # noqa: B018 - it raises
            cache.close()
        finally:
            cache._thread.usable, cache._thread.forked = True, False
        assert cache.snapshot.bookies.writable
