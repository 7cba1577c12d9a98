"""What the driver reports when the cluster does not respond."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from dlog.core.publication import StagedLedger
from dlog.metadata.log_ref import LogRef
from dlog.model import LogName, Owner
from dlog.sink.epoch import SinkEpoch
from ledger.errors import MetadataOutcomeUnknownError, RequestTimeoutError
from ledger.model import LedgerId
from spark_connector.options.sink_options import SinkOptions, parse_sink_options
from spark_connector.sink.driver import abort, commit

LOG = LogName(namespace="default", name="orders")
EPOCH = SinkEpoch(
    uri="",
    ref=LogRef(LOG, "6f0c4d2e-6f0b-4f6a-9d1e-1f3c5b7a9d11"),
    epoch=1,
    owner=Owner(instance="sink"),
    append_time_us=0,
    producers=None,
    marks=(),
)
STAGED = (StagedLedger(ledger_id=LedgerId(7), created_us=0, last_entry=0, message_count=1, byte_count=1),)


@pytest.fixture
def options() -> Iterator[SinkOptions]:
    """Of a metadata store that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        given = {
            "metadata": f"zk+hierarchical://127.0.0.1:{silent.getsockname()[1]}/ledgers",
            "log": "orders",
            "writeTimeoutMs": "300",
        }
        yield parse_sink_options(given, stream=False)


def test_an_abort_names_the_option_that_gives_it_more_time(options: SinkOptions) -> None:
    with pytest.raises(
        RequestTimeoutError, match=r"could not be deleted within writeTimeoutMs=300: .*raise writeTimeoutMs"
    ):
        asyncio.run(abort(options, EPOCH, STAGED))


def test_a_commit_without_an_answer_is_of_unknown_outcome(options: SinkOptions) -> None:
    with pytest.raises(MetadataOutcomeUnknownError, match="not known after writeTimeoutMs=300") as failed:
        asyncio.run(commit(options, EPOCH, None, STAGED))
    assert "could not be published within writeTimeoutMs=300" in str(failed.value.__cause__)
