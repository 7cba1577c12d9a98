"""Spark reads logs as DataFrames: `spark.dataSource.register(DlogDataSource)`, then `format("dlog")`.

With the distribution installed Spark finds the source by itself, through the package `pyspark_dlog`.
"""

from spark_connector.source import DlogDataSource

__all__ = ["DlogDataSource"]
