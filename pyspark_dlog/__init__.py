"""Spark looks for packages named `pyspark_*` and takes their `DefaultSource`; this one is format "dlog".

Invariant: importing this never raises. Spark imports it for every session, also for one too old for Python sources.
"""

import logging

__all__: list[str] = []

try:
    from spark_connector.source import DlogDataSource as DefaultSource
except ImportError as error:
    # Spark then reports format("dlog") as unknown, without a reason, and every other source works on.
    logging.getLogger(__name__).warning("the data source dlog is not available: %s", error)
else:
    __all__ = ["DefaultSource"]
