"""The lines of a bookie's log."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from bookie_server.config_file import make_config
from bookie_server.log_output import LineFormatter
from ledger.errors import ConfigurationError


def test_a_line_has_time_level_and_message() -> None:
    record = logging.LogRecord(
        "bookie_server.server", logging.WARNING, "server.py", 1, "read-only: %s", ("full",), None
    )
    record.created = 1_795_811_054.3796
    assert LineFormatter().format(record) == "2026-11-27T20:24:14.379Z WARNING read-only: full"


@pytest.mark.parametrize("level", ["INFO", "loud", ""])
def test_an_unknown_level_is_refused(tmp_path: Path, level: str) -> None:
    with pytest.raises(ConfigurationError, match="log_level must be one of debug, info, warning, error"):
        make_config({"metadata": "memory:", "data": str(tmp_path), "log_level": level}, {})


def test_the_option_overrides_the_file(tmp_path: Path) -> None:
    settings = {"metadata": "memory:", "data": str(tmp_path), "log_level": "error"}
    assert make_config(settings, {"log_level": "debug"}).log_level == "debug"
    assert make_config(settings, {"log_level": None}).log_level == "error"
