"""Every command that takes an address takes it from DLOG_METADATA, too, and says where it can come from."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer.main

from bookie_server.tools.cli import app as bookie_app
from dlog.cli.main import app as dlog_app
from tests.helpers.processes.command import Command, bookie

pytestmark = pytest.mark.integration

MAKES_A_CLUSTER = {"standalone", "demo"}
"""They make a cluster of their own unless an address is given: one left over in the shell must not change that."""

ARGUMENTS = {
    "append": ["log"],
    "create": ["log"],
    "cursor ls": ["log"],
    "cursor rm": ["log", "cursor"],
    "cursor set": ["log", "cursor", "earliest"],
    "delete": ["log", "--yes"],
    "explain": ["log", "0:0:0"],
    "export": ["log", "--to", "csv", "-"],
    "history": ["log"],
    "info": ["log"],
    "ledgers": ["log"],
    "properties": ["log"],
    "read": ["log"],
    "retention": ["log"],
    "rotate": ["log"],
    "seal": ["log"],
    "shrink": ["log", "0:0:0"],
    "tail": ["log"],
    "verify": ["log"],
    "format": ["--data", "no-such-directory", "--yes"],
    "nuke-cluster": ["--force"],
    "read-ledger": ["1"],
    "recover": ["127.0.0.1:3181"],
    "decommission": ["127.0.0.1:3181"],
    "start": ["--data", "no-such-directory"],
}


def commands_with_an_address(app: typer.Typer) -> list[str]:
    commands = {**typer.main.get_group(app).commands}
    for name, command in list(commands.items()):
        for below, its_command in getattr(command, "commands", {}).items():
            commands[f"{name} {below}"] = its_command
    return sorted(
        name
        for name, command in commands.items()
        if any("--metadata" in parameter.opts for parameter in command.params)
    )


@pytest.mark.parametrize("name", sorted(set(commands_with_an_address(dlog_app)) - MAKES_A_CLUSTER))
def test_dlog_takes_the_address_of_the_environment(name: str) -> None:
    Command("nonsense").here(*name.split(), *ARGUMENTS.get(name, [])).must_fail(
        2, "'nonsense'", "scheme:rest"
    )


@pytest.mark.parametrize("name", commands_with_an_address(bookie_app))
def test_bookie_takes_the_address_of_the_environment(name: str) -> None:
    bookie(name, *ARGUMENTS.get(name, []), uri="nonsense").must_fail(2, "'nonsense'", "scheme:rest")


def test_an_option_is_nearer_than_a_file_and_a_file_than_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "bookie.toml"
    file.write_text(f'metadata = "of-the-file"\ndata = "{tmp_path}/data"\n')
    start = ("start", "--config", str(file))
    bookie(*start, uri="of-the-environment").must_fail(2, "'of-the-file'")
    bookie(*start, "--metadata", "of-the-option", uri="of-the-environment").must_fail(2, "'of-the-option'")


def test_a_bookie_without_an_address(tmp_path: Path) -> None:
    bookie("start", "--data", str(tmp_path)).must_fail(2, "--metadata URI", "DLOG_METADATA")
