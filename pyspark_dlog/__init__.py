"""Spark looks for packages named `pyspark_*` and takes their `DefaultSource`; this one is format "dlog".

Invariant: importing this never raises. Spark imports it for every session, also for one too old for Python sources.
"""

__all__: list[str] = []

try:
    from spark_connector.source import DlogDataSource as DefaultSource
except ImportError:
    # Without it format("dlog") is simply unknown, and every other source works on.
    pass
else:
    __all__ = ["DefaultSource"]
