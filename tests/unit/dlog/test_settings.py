"""Settings classes: `help` explains every field, and a value of a wrong type is refused by the field's name."""

from __future__ import annotations

import inspect
import pydoc
from dataclasses import dataclass, fields
from typing import Any

import pytest

import dlog
from dlog.testing import ClusterConfig
from ledger.errors import ConfigurationError
from ledger.field_docs import with_field_docs

SETTINGS: list[Any] = [
    dlog.LogConfig,
    dlog.ReaderConfig,
    dlog.BatchLimits,
    dlog.RotationLimits,
    dlog.QuorumSizes,
    dlog.LedgerClientConfig,
    ClusterConfig,
]
ALL = [
    pytest.param(each, field.name, id=f"{each.__name__}.{field.name}")
    for each in SETTINGS
    for field in fields(each)
]


@pytest.mark.parametrize(("settings", "name"), ALL)
def test_a_value_of_a_wrong_type_is_refused_by_name(settings: Any, name: str) -> None:
    (kind,) = [field.type for field in fields(settings) if field.name == name]
    for wrong in (object(), [1], 1 if kind == "bool" else True):
        with pytest.raises(ConfigurationError, match=rf"^{name} of {settings.__name__} must be"):
            settings(**{name: wrong})


@pytest.mark.parametrize(("settings", "name"), ALL)
@pytest.mark.parametrize("huge", [10**400, -(10**400), 10**5000], ids=["digits", "negative", "unprintable"])
def test_a_number_that_is_too_large_is_refused_by_name(settings: Any, name: str, huge: int) -> None:
    """Such a number overflows where it is divided or encoded, and Python does not print the largest one."""
    with pytest.raises(ConfigurationError, match=rf"^{name} of {settings.__name__} must be"):
        settings(**{name: huge})


@pytest.mark.parametrize(("settings", "name"), ALL)
def test_help_explains_every_field(settings: Any, name: str) -> None:
    _, _, below = pydoc.plain(pydoc.render_doc(settings)).partition(" |  Fields:\n")
    shown = below.partition(" |  Methods defined here:\n")[0].splitlines()
    (line,) = [number for number, text in enumerate(shown) if text.startswith(f" |      {name}: ")]
    assert shown[line + 1].startswith(" |          ")
    assert len(shown[line + 1].split()) > 3


def test_help_shows_types_and_defaults() -> None:
    assert "    bytes_max: int = 1024 * 1024 * 1024\n        Whole ledgers" in (
        dlog.RotationLimits.__doc__ or ""
    )
    assert "    quorum: QuorumSizes = QuorumSizes()\n" in (dlog.LogConfig.__doc__ or "")
    assert "    password: bytes\n        Master password" in (dlog.LogConfig.__doc__ or "")
    assert "Settings of a reader." in (dlog.ReaderConfig().__doc__ or "")


def test_without_the_source_the_text_of_the_class_is_left() -> None:
    made: dict[str, Any] = {
        "dataclass": dataclass,
        "with_field_docs": with_field_docs,
        "__name__": "builtins",
    }
    exec("@with_field_docs\n@dataclass\nclass Made:\n    'Text.'\n    one: int = 1\n    'Field.'", made)
    assert inspect.getdoc(made["Made"]) == "Text."
