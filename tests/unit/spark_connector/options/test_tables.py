"""What a table's schema keeps, and which options a query has."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.types import StructType

from spark_connector.errors import BadOptionError
from spark_connector.options.tables import check_write_options, read_options, table_options, with_options
from spark_connector.read.schema import read_schema

PROPERTIES = {
    "provider": "dlog", "owner": "root", "metadata": "m", "log": "a", "option.metadata": "m", "option.log": "a",
}  # fmt: skip


def kept(**options: str) -> StructType:
    return with_options(read_schema(False), options)


def test_the_options_of_a_table_are_found_among_its_properties() -> None:
    assert table_options(PROPERTIES) == {"metadata": "m", "log": "a"}
    located = {"provider": "dlog", "location": "a", "path": "a", "option.metadata": "m"}
    assert table_options(located) == {"metadata": "m", "path": "a"}
    assert table_options({"metadata": "m", "log": "a"}) is None


def test_a_schema_keeps_its_columns_and_the_options() -> None:
    schema = kept(metadata="m", log="ä")
    assert [(f.name, f.dataType, f.nullable) for f in schema] == [
        (f.name, f.dataType, f.nullable) for f in read_schema(False)
    ]
    assert read_options({}, schema) == {"metadata": "m", "log": "ä"}
    again = StructType.fromJson(schema.jsonValue())
    assert read_options({}, again) == {"metadata": "m", "log": "ä"}


def test_a_query_adds_to_the_options_of_its_table_unless_it_names_a_cluster() -> None:
    schema = kept(metadata="m", log="a", startingid="latest")
    assert read_options({"startingId": "1:0:0"}, schema) == {
        "metadata": "m", "log": "a", "startingid": "1:0:0",
    }  # fmt: skip
    assert read_options({"Metadata": "n", "log": "b"}, schema) == {"metadata": "n", "log": "b"}


@pytest.mark.parametrize(
    ("of_table", "of_query"),
    [
        ({"startingtimestamp": "0"}, {"startingId": "1:0:0"}),
        ({"endingtimestamp": "0", "endingid": "latest"}, {"ENDINGID": "1:0:0"}),
        ({"path": "a"}, {"log": "b"}),
        ({"log": "a"}, {"logsPattern": "b.*"}),
        ({"maxbytespertrigger": "1"}, {"maxRecordsPerTrigger": "1"}),
    ],
)
def test_an_option_of_a_query_takes_the_place_of_those_that_say_the_same(
    of_table: dict[str, str], of_query: dict[str, str]
) -> None:
    found = read_options(of_query, kept(metadata="m", namespace="n", **of_table))
    assert found == {"metadata": "m", "namespace": "n"} | {
        name.lower(): value for name, value in of_query.items()
    }


def test_without_a_log_anywhere_the_error_speaks_of_tables() -> None:
    with pytest.raises(BadOptionError, match="without a list of columns"):
        read_options({"startingId": "latest"}, read_schema(False))
    assert read_options({"log": "a"}, read_schema(False)) == {"log": "a"}


@pytest.mark.parametrize("name", ["metadata", "LOG", "path"])
def test_a_write_that_names_something_is_left_to_the_other_checks(name: str) -> None:
    check_write_options({name: "x"})


def test_a_write_into_a_table_is_told_what_to_do() -> None:
    with pytest.raises(BadOptionError, match="INSERT INTO … WITH"):
        check_write_options({"writerId": "w", "checkpointLocation": "/x"})
