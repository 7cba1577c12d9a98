"""Mean departure delay by carrier, from a log that holds one CSV line of flights a message.

    zcat examples/data/flights-2013-01.csv.gz | dlog append flights --format csv --key-column carrier --create
    python examples/mean_delay.py sqlite:////path/to/meta.db flights

Needs `pip install '.[cli,server,spark]'` in a checkout, and Java 17.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession


def main(uri: str, log: str) -> None:
    spark = SparkSession.builder.master("local[2]").appName("mean delay").getOrCreate()
    spark.read.format("dlog").option("metadata", uri).option("log", log).load().createOrReplaceTempView(
        "flights"
    )
    spark.sql(
        """
        SELECT decode(key, 'UTF-8') AS carrier,
               count(*) AS flights,
               avg(try_cast(split(decode(value, 'UTF-8'), ',')[5] AS double)) AS mean_delay
        FROM flights GROUP BY key ORDER BY mean_delay DESC
        """
    ).show(50)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
