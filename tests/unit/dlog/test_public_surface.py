"""What a person finds at the prompt, and what a type checker says of a misspelt name."""

from __future__ import annotations

import pydoc
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import dlog
import ledger
from tests.helpers.log.blocking_log import blocking_log
from tests.helpers.repository import ROOT

MISSPELT = """
import dlog
import ledger

client = dlog.conect("sqlite:///meta.db")
with dlog.connect("sqlite:///meta.db") as right:
    right.open_writr("orders")
    right.open_writer("orders", create=True).apend(b"payload")
ledger.LedgerKlient
try:
    right.shrink("orders", "1:0:0")
except dlog.errors.ShrinkRefusedError as error:
    print(error.limit.ledger_id, error.nonsense)
right.describe("orders", timeout=1)
right.describe(7)
dlog.LogConfig(degraded="refuse")
"""


def test_the_prompt_completes_public_names_only() -> None:
    assert dir(dlog) == sorted(dlog.__all__)
    assert dir(ledger) == sorted(ledger.__all__)


@pytest.mark.parametrize(
    ("package", "config"),
    [(dlog, dlog.LogConfig), (ledger, ledger.LedgerClientConfig)],
    ids=["dlog", "ledger"],
)
def test_every_setting_can_be_made_with_public_names(package: ModuleType, config: type) -> None:
    """Also those of settings within settings."""
    names = {type(each).__name__ for each in settings_within(config())}
    assert names <= set(package.__all__)


def settings_within(config: Any) -> Iterator[Any]:
    yield config
    for field in fields(config):
        value = getattr(config, field.name)
        if is_dataclass(value):
            yield from settings_within(value)
        elif isinstance(value, Enum):
            yield value


def test_help_shows_the_public_classes() -> None:
    shown = pydoc.plain(pydoc.render_doc(dlog))
    for name in ("class Client", "class Writer", "class Reader", "class LogConfig", "class BatchLimits"):
        assert name in shown


def test_a_type_checker_refuses_misspelt_names(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(MISSPELT)
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", f"--cache-dir={tmp_path}", str(program)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    refused = [
        line for line in checked.stdout.splitlines() if line.startswith(str(program)) and " error: " in line
    ]
    lines = [int(line.split(":")[1]) for line in refused]
    assert lines == [5, 7, 8, 9, 13, 14, 15, 16], checked.stdout


def test_objects_show_what_they_are() -> None:
    with blocking_log() as log:
        client = log.client()
        assert re.fullmatch(r"<Client \S+ namespace default>", repr(client))
        writer = client.open_writer("orders", create=True)
        assert repr(writer) == "<Writer default/orders epoch 1 active>"
        last = writer.append_many([b"one", b"two"])[-1]
        with client.reader("orders", until="latest") as reader:
            assert repr(reader) == "<Reader default/orders at 0:0:0>"
            assert next(reader).payload == b"one"
            assert repr(reader) == f"<Reader default/orders at {last}>"
        assert repr(reader) == f"<Reader default/orders at {last} closed>"
        writer.close()
        assert repr(writer) == "<Writer default/orders epoch 1 closed>"
        with client.metadata_cache() as cache:
            assert repr(cache) == f"<MetadataCache of {client.uri}>"
        assert repr(cache) == f"<MetadataCache of {client.uri} closed>"
