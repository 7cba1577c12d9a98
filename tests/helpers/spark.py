"""What people see of Spark."""

from __future__ import annotations

from collections.abc import Callable

import pytest


def first_said(attempt: Callable[[], object]) -> str:
    """What a person reads of the failure before any traceback."""
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as caught:
        attempt()
    return str(caught.value).partition("Traceback")[0]
