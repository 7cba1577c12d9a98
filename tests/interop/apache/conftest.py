"""What all tests with Apache's bookies share: its classes, loaded once."""

from __future__ import annotations

import pytest

from tests.helpers.apache.class_archive import share_classes
from tests.helpers.apache.java_libs import class_path


@pytest.fixture(scope="session", autouse=True)
def shared_classes(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> None:
    """One archive for all processes of this session."""
    class_path()  # skips the test where there are no jars
    own = tmp_path_factory.getbasetemp()
    share_classes(own.parent if hasattr(request.config, "workerinput") else own)
