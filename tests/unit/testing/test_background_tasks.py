"""The list of tasks that may end with an error, because something awaits them."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from dlog.testing.background_tasks import AWAITED, ENDS_ITS_WRITER
from tests.helpers.coverage.functions import defined


@pytest.fixture(scope="module")
def names() -> frozenset[str]:
    """Qualified names of all functions of the packages."""
    return frozenset(name.partition(":")[2] for name in defined())


@pytest.mark.parametrize("listed", [*AWAITED, *ENDS_ITS_WRITER])
def test_what_is_listed_exists(names: frozenset[str], listed: str) -> None:
    """A function that was renamed would fail every seed in which its task ends with an error."""
    assert any(fnmatchcase(name, listed) for name in names)
