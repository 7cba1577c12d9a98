"""Options of a write, each wrong in every way that its type allows."""

from __future__ import annotations

import pytest

from dlog.core.publication import SinkBatch
from spark_connector.errors import BadOptionError
from spark_connector.options.sink_options import SinkOptions, parse_sink_options

BOTH = {"metadata": "sqlite:///x.db", "log": "orders"}


def parsed(stream: bool = False, **options: str) -> SinkOptions:
    return parse_sink_options({**BOTH, **options}, stream=stream)


def test_defaults_and_names_in_any_case() -> None:
    found = parsed()
    assert (found.metadata, found.log, found.namespace) == ("sqlite:///x.db", "orders", "default")
    assert (found.exactly_once, found.writer_id, found.batch_id, found.batch) == (True, None, None, None)
    assert (found.timeout_s, found.owner_name) == (60.0, "Spark sink")
    named = parse_sink_options(
        {"METADATA": "m", "path": "p", "WRITERID": "w", "batchid": "7", "WriteTimeoutMs": "1_500"},
        stream=False,
    )
    assert named.log == "p"
    assert named.batch == SinkBatch(writer_id="w", number=7)
    assert (named.timeout_s, named.owner_name) == (1.5, "Spark sink w")


def test_a_stream_has_what_spark_adds() -> None:
    found = parsed(stream=True, checkpointLocation="/c", queryName="copy")
    assert found.owner_name == "Spark sink copy"
    assert parsed(stream=True, queryName="copy", writerId="w").owner_name == "Spark sink w"
    assert parsed(stream=True, exactlyOnce="FALSE").exactly_once is False


@pytest.mark.parametrize(
    ("stream", "options", "said"),
    [
        (False, {"metadata": ""}, "option 'metadata' is missing"),
        (False, {"log": ""}, "option 'log' is missing"),
        (False, {"log": "a/b"}, "option 'log': name 'a/b' is not valid"),
        (False, {"path": "other"}, "name two logs"),
        (False, {"logs": "a,b"}, "option 'logs' is unknown"),
        (False, {"namespace": ".."}, "option 'namespace'"),
        (False, {"exactlyOnce": "yes"}, "option 'exactlyOnce' must be true or false"),
        (False, {"exactlyOnce": ""}, "option 'exactlyOnce' must be true or false"),
        (True, {"passwordFile": ""}, "option 'passwordFile' must be the path of a file, got ''"),
        (False, {"writeTimeoutMs": "0"}, "option 'writeTimeoutMs' must be a whole number from 1"),
        (False, {"writeTimeoutMs": "-1"}, "option 'writeTimeoutMs' must be a whole number from 1"),
        (False, {"writeTimeoutMs": "1.5"}, "option 'writeTimeoutMs' must be a whole number from 1"),
        (False, {"writeTimeoutMs": "soon"}, "option 'writeTimeoutMs' must be a whole number from 1"),
        (False, {"writeTimeoutMs": "86400001"}, "option 'writeTimeoutMs' must be a whole number from 1"),
        (False, {"writerId": "", "batchId": "1"}, "option 'writerId': a sink's writer id must have 1 to 200"),
        (
            False,
            {"writerId": "w" * 201, "batchId": "1"},
            "option 'writerId': a sink's writer id must have 1 to 200",
        ),
        (False, {"writerId": "w", "batchId": "-1"}, "option 'batchId' must be a whole number from 0"),
        (False, {"writerId": "w", "batchId": "x"}, "option 'batchId' must be a whole number from 0"),
        (False, {"writerId": "w", "batchId": str(2**63)}, "option 'batchId' must be a whole number from 0"),
        (False, {"writerId": "w"}, "belong together in a batch write"),
        (False, {"batchId": "1"}, "belong together in a batch write"),
        (False, {"exactlyOnce": "false", "writerId": "w", "batchId": "1"}, "are for exactlyOnce=true"),
        (
            False,
            {"checkpointLocation": "/c"},
            "option 'checkpointlocation' is unknown, or is not for writing",
        ),
        (False, {"startingId": "latest"}, "option 'startingid' is unknown, or is not for writing"),
        (True, {"batchId": "1"}, "option 'batchId' is for batch writes"),
        (True, {"failOnDataLoss": "true"}, "option 'failondataloss' is unknown, or is not for writing"),
        (True, {"exactlyOnce": "false", "writerId": "w"}, "are for exactlyOnce=true"),
    ],
)
def test_what_is_wrong_is_named(stream: bool, options: dict[str, str], said: str) -> None:
    with pytest.raises(BadOptionError) as caught:
        parsed(stream, **options)
    assert said in str(caught.value)


@pytest.mark.parametrize("name", ["metadata", "log"])
def test_what_is_required_must_be_there(name: str) -> None:
    with pytest.raises(BadOptionError, match=f"option '{name}' is missing"):
        parse_sink_options({key: value for key, value in BOTH.items() if key != name}, stream=False)
