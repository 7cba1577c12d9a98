"""What a program holds of a client is one thing: neither `copy` nor `pickle` makes a second one."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

import dlog
from ledger.errors import ConfigurationError
from tests.helpers.log.blocking_log import blocking_log


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_copy_is_refused_with_what_to_do_instead(
    duplicate: Callable[[object], object], tmp_path: Path
) -> None:
    with blocking_log() as log:
        client = log.client()
        writer = client.open_writer("orders", create=True)
        with client.reader("orders") as reader, client.metadata_cache() as cache:
            for each in (client, writer, writer.producer("p"), reader, cache, dlog.standalone(tmp_path)):
                with pytest.raises(ConfigurationError, match="pass the address of the cluster"):
                    duplicate(each)


def test_what_a_client_reports_can_be_copied() -> None:
    with blocking_log() as log:
        client = log.client()
        client.create("orders")
        for facts in (client.overview("orders"), client.describe("orders"), client.retention("orders")):
            assert pickle.loads(pickle.dumps(facts)) == copy.deepcopy(facts) == facts
