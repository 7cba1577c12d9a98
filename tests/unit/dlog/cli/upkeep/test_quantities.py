"""Times and sizes on the command line."""

from __future__ import annotations

import pytest

from dlog.cli.upkeep.quantities import bytes_of, seconds_of
from ledger.errors import ConfigurationError


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("1.5m", 90), ("12h", 43_200), ("7d", 604_800), ("0s", 0)]
)
def test_a_time(text: str, seconds: float) -> None:
    assert seconds_of(text, "--max-age") == seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("7", 7),
        ("7B", 7),
        ("2KB", 2000),
        ("2KiB", 2048),
        ("1.5MiB", 3 * 2**19),
        ("10GB", 10**10),
        ("1TiB", 2**40),
    ],
)
def test_a_size(text: str, size: int) -> None:
    assert bytes_of(text, "--max-bytes") == size


@pytest.mark.parametrize("text", ["", "7", "d", "-7d", "7w", "7 d", "1e3s", "7D", "\u0661d"])
def test_no_time(text: str) -> None:
    with pytest.raises(ConfigurationError, match="--max-age must be a time like 90s, 30m, 12h or 7d, got"):
        seconds_of(text, "--max-age")


@pytest.mark.parametrize("text", ["", "GB", "-1", "10gb", "10 GB", "1e9", "10GBB", "9" * 16])
def test_no_size(text: str) -> None:
    with pytest.raises(
        ConfigurationError, match="--max-bytes must be a size like 500000, 512MiB or 10GB, got"
    ):
        bytes_of(text, "--max-bytes")
