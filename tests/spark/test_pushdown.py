"""What Spark does with filters that a Python source prunes by: docs/decisions/0011-no-filter-pushdown.md.

If this fails, Spark has changed, and the decision can be taken again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.helpers.spark import needs_pyspark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.integration, needs_pyspark("4.1", "filters are pushed down")]

ENABLED = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[SparkSession]:
    """The session, with a source of the rows 0 to 3, each in a partition of its own."""
    spark.conf.set(ENABLED, "true")
    spark.dataSource.register(pruning())
    yield spark
    spark.conf.set(ENABLED, "false")


def pruning() -> type:
    from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, InputPartition

    class Reader(DataSourceReader):
        only = None

        def pushFilters(self, filters):  # type: ignore[no-untyped-def]  # as its base
            for each in filters:
                if isinstance(each, EqualTo):
                    self.only = each.value
                yield each  # Spark filters all the same

        def partitions(self):  # type: ignore[no-untyped-def]  # as its base
            return [InputPartition(n) for n in range(4) if self.only in (None, n)]

        def read(self, partition):  # type: ignore[no-untyped-def]  # as its base
            yield (partition.value,)

    class Pruning(DataSource):
        @classmethod
        def name(cls) -> str:
            return "pruning"

        def schema(self) -> str:
            return "n int"

        def reader(self, schema):  # type: ignore[no-untyped-def]  # as its base
            return Reader()

    return Pruning


def numbers(frame: DataFrame) -> list[int]:
    return sorted(row[0] for row in frame.collect())


def test_scans_of_one_dataframe_share_what_the_last_filter_has_pruned(pushing: SparkSession) -> None:
    def load() -> DataFrame:
        return pushing.read.format("pruning").load()

    frame = load()
    assert numbers(frame) == [0, 1, 2, 3]
    frame = load()
    assert numbers(frame.where("n = 2")) == [2]
    assert numbers(frame) == [2], "wrong: 0, 1, 2, 3"
    frame = load()
    assert numbers(frame.where("n = 1").union(frame.where("n = 2"))) == [2], "wrong: 1, 2"
    frame = load()
    assert numbers(frame.where("n = 1").union(frame)) == [1, 1], "wrong: 0, 1, 1, 2, 3"


def test_so_do_those_of_a_view_and_of_a_table(pushing: SparkSession) -> None:
    pushing.read.format("pruning").load().createOrReplaceTempView("pruned")
    assert numbers(pushing.sql("SELECT * FROM pruned WHERE n = 2")) == [2]
    assert numbers(pushing.sql("SELECT count(*) FROM pruned")) == [1], "wrong: 4"
    pushing.sql("CREATE TABLE pruned_table USING pruning")
    both = "SELECT * FROM pruned_table WHERE n = 1 UNION ALL SELECT * FROM pruned_table WHERE n = 3"
    assert numbers(pushing.sql(both)) == [3], "wrong: 1, 3"
    pushing.sql("DROP TABLE pruned_table")
    pushing.catalog.dropTempView("pruned")
