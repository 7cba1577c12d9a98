"""No password is shown: not by what a value prints of itself, not by a message, not by a command.

A ledger's password is its master key and travels in metadata; that of a metadata store is in a file by design.
"""

from __future__ import annotations

import ast
import asyncio
import importlib
import re
from dataclasses import fields, is_dataclass

import pytest

import dlog
from dlog.client import connect
from ledger.config import LedgerClientConfig
from ledger.errors import ConfigurationError, UnauthorizedError
from ledger.metadata.uri import parse_uri
from ledger.metadata.zookeeper.address import parse_address
from ledger.model import BookieId, EntryId, Fragment, LedgerMetadata, QuorumSizes
from tests.helpers.repository import ROOT

SECRET = re.compile(r"password(?!_file)|secret(?!s\.)|credential|master_key", re.IGNORECASE)
MODULES = [
    path.relative_to(ROOT).with_suffix("")
    for package in ("ledger", "dlog", "bookie_server", "spark_connector")
    for path in sorted((ROOT / package).rglob("*.py"))
    if "testing" not in path.parts and not path.name.endswith(("_pb2.py", "__main__.py"))
]


@pytest.mark.parametrize("shown", [repr, str, "{}".format, "{!r}".format, lambda value: f"{value!s}"])
def test_values_that_hold_a_password_do_not_show_it(shown: object) -> None:
    assert callable(shown)
    metadata = LedgerMetadata(
        quorum=QuorumSizes(),
        fragments=(Fragment(EntryId(0), tuple(map(BookieId, ("a:1", "b:1", "c:1")))),),
        password=b"hunter2",
    )
    for value in (dlog.LogConfig(password=b"hunter2"), metadata, [metadata], LedgerClientConfig()):
        assert "hunter2" not in shown(value)
        assert b"hunter2".hex() not in shown(value)


def test_no_dataclass_shows_a_field_that_is_named_so() -> None:
    wrong = []
    for path in MODULES:
        module = importlib.import_module(".".join(path.parts).removesuffix(".__init__"))
        for value in vars(module).values():
            if isinstance(value, type) and is_dataclass(value) and value.__module__ == module.__name__:
                wrong += [
                    f"{value.__module__}.{value.__name__}.{field.name}"
                    for field in fields(value)
                    if field.repr and SECRET.search(field.name)
                ]
    assert wrong == []


def test_no_text_is_made_of_a_secret() -> None:
    """Neither an error nor a log line formats a variable of such a name."""
    wrong = [
        f"{path}.py:{node.lineno} {ast.unparse(node.value)}"
        for path in MODULES
        for node in ast.walk(ast.parse((ROOT / path).with_suffix(".py").read_text("utf-8")))
        if isinstance(node, ast.FormattedValue)
        and SECRET.search(shown := ast.unparse(node.value))
        and not shown.startswith(("len(", "without_password("))
    ]
    assert wrong == []


def test_a_wrong_type_does_not_show_what_it_was_given() -> None:
    with pytest.raises(ConfigurationError) as caught:
        dlog.LogConfig(password="hunter2")  # type: ignore[arg-type]  # the mistake
    assert "hunter2" not in str(caught.value)
    with pytest.raises(ConfigurationError) as caught:
        dlog.LogConfig(owner_name=b"hunter2")  # type: ignore[arg-type]
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "zk://user:hunter2@host:2181/ledgers",
        "zk+hierarchical://user:hunter2@h1:2181;h2:2181/ledgers",
        "etcd://user:hunter2@host",
        "user:hunter2@host",
        "https://user:hunter2@host/x?root=/y",
    ],
)
def test_an_address_with_a_password_is_refused_without_showing_it(text: str) -> None:
    """Ours have no place for one; a person may still write it, and the error goes to a log."""
    with pytest.raises(ConfigurationError) as caught:
        asyncio.run(connect(text))
    assert "hunter2" not in str(caught.value), caught.value
    if text.startswith("zk"):
        with pytest.raises(ConfigurationError) as caught:
            parse_address(parse_uri(text))
        assert "hunter2" not in str(caught.value)


def test_a_wrong_password_is_an_error_without_either() -> None:
    error = UnauthorizedError("the password given does not open ledger 7", ledger_id=7)
    assert error.facts == {"ledger_id": 7}
