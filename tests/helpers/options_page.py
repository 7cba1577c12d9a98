"""docs/options.md: every setting, every parameter of a method and every option of the commands, made from the code.

python -m tests.helpers.options_page --write
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import typer.main

import bookie_server.tools.cli
import dlog
import dlog.cli.main
from bookie_server.config import BookieConfig, Limits
from bookie_server.storage.config import StorageConfig
from dlog.testing import ClusterConfig
from ledger.placement.config import PlacementConfig
from ledger.repair.config import RepairConfig
from tests.helpers import method_parameters
from tests.helpers.repository import ROOT

PAGE = ROOT / "docs" / "options.md"

INTRODUCTION = """# Options

Every setting of the API and of a bookie, every parameter of the API's methods, and every option of the commands,
with its default.
`python -m tests.helpers.options_page --write` writes this page from the code; a test compares them.
Elsewhere: [metadata addresses](metadata.md), [Spark options](spark.md#options), [fixtures](testing-your-code.md).
A value that is wrong, or contradicts another one, raises a `ConfigurationError` before anything is done.
A command then exits with 2 ([errors](errors.md)).
"""

ALL_COMMANDS = """All but `standalone` and `demo` take `--metadata URI`, the cluster's address (default: DLOG_METADATA),
and `--namespace NAME`, the namespace of the log (default: `default`).
The environment variable `DLOG_PASSWORD_FILE` names a file with the [password](command-line.md) of the log.
Every command has `--help`, and `dlog` itself `--version`.
"""

API: dict[type, str] = {
    dlog.LogConfig: "`dlog.connect(uri, config=dlog.LogConfig(…))`: settings of a client.",
    dlog.QuorumSizes: "`LogConfig.quorum`: copies of each entry.",
    dlog.BatchLimits: "`LogConfig.batching`: when a batch is sent.",
    dlog.RotationLimits: "`LogConfig.rotation`: when a ledger is replaced.",
    dlog.LedgerClientConfig: "`LogConfig.ledger`: connections and timeouts.",
    PlacementConfig: "`LedgerClientConfig.placement`, and the table `[placement]` of a bookie's file: which bookies "
    "ledgers get ([placement](repair.md#placement)).",
    dlog.ReaderConfig: "`client.reader(log, config=dlog.ReaderConfig(…))`: settings of a reader.",
    dlog.Retention: "`client.set_retention(log, dlog.Retention(…))`: what of a log is kept.",
    ClusterConfig: "`dlog.testing.simulate(main, config=ClusterConfig(…))`: the simulated cluster.",
}
BOOKIE: dict[type, str] = {
    BookieConfig: "`bookie start --config FILE`, a TOML file. `data`, or `journal_dir` and `ledger_dir`, are there "
    "instead of the directories of `[storage]`.",
    Limits: "Its table `[limits]`.",
    StorageConfig: "Its table `[storage]`.",
    RepairConfig: "Its table `[repair]`, also for `bookie autorecovery --config FILE` ([repair](repair.md)).",
}
NONE = "-"
UNITS = {
    "QuorumSizes": "bookies",
    "batch_count_max": "messages",
    "entries_max": "entries",
    "fetch_entries_max": "entries",
    "recovery_read_ahead": "entries",
    "max_messages": "messages",
    "age_jitter": "share of 1",
    "disk_usage_max": "share of 1",
    "minor_compaction_threshold": "share of 1",
    "major_compaction_threshold": "share of 1",
    "disk_usage_writable": "share of 1",
    "hard_bytes_factor": "times",
    "bookies": "bookies",
    "port": "port",
    "http_port": "port",
    "connections_max": "connections",
    "connections_per_address_max": "connections",
    "connection_reads_max": "reads",
    "reads_max": "reads",
    "connection_reads_queued_max": "reads",
    "long_polls_max": "long polls",
    "connection_long_polls_max": "long polls",
    "ledger_states_max": "ledgers",
    "read_worker_count": "threads",
    "check_percentage": "percent",
    "ledgers_at_once": "ledgers",
    "racks_min": "racks",
    "zones_min": "zones",
    "free_space_multiple_max": "times",
    "racks": "racks",
}
"""Of numbers whose names do not end in their unit; the first name is of a class."""


COMMON = {
    "metadata": "Metadata address of the cluster, as printed by `dlog standalone`.",
    "namespace": "Namespace of the log.",
}
"""Options of nearly every command of `dlog`, and their help."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One field of a settings class."""

    name: str
    default: str
    unit: str
    meaning: str


def settings_of(config: type) -> Iterator[Setting]:
    """The fields, with the text below each."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(config))).body
    assert isinstance(definition, ast.ClassDef)
    hints = inspect.get_annotations(config, eval_str=True)
    for field, below in zip(definition.body, [*definition.body[1:], None], strict=True):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        name = field.target.id
        unit = unit_of(config, name, hints[name])
        documented = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        meaning = " ".join(str(below.value.value).split()) if documented else ""  # type: ignore[union-attr]  # an Expr
        yield Setting(name, _default(config, name, field.value, unit), unit, _linked(meaning))


def unit_of(config: type, name: str, hint: Any) -> str:
    """Unit of a number, or the values of an enumeration."""
    kinds = getattr(hint, "__args__", (hint,))
    if isinstance(kinds[0], type) and issubclass(kinds[0], Enum):
        return ", ".join(f"`{each.name}`" for each in kinds[0])
    if not {int, float} & set(kinds) or hint is bool:
        return NONE
    if name in UNITS or config.__name__ in UNITS:
        return UNITS.get(name) or UNITS[config.__name__]
    if name.endswith("bytes_per_s"):
        return "bytes/s"
    if name.endswith(("_s", "_s_max")):
        return "s"
    if "bytes" in name:
        return "bytes"
    raise LookupError(f"what is the unit of {config.__name__}.{name}?")


def _default(config: type, name: str, value: ast.expr | None, unit: str) -> str:
    """The value of a number, else what is written."""
    if value is None:
        return "required"
    [default] = [field.default for field in dataclasses.fields(config) if field.name == name]
    if type(default) in (int, float):
        if unit in ("bytes", "bytes/s"):
            return _size(default)
        return f"`{default:g}`" if default < 1e5 or default != int(default) else f"`{default:.0f}`"
    if isinstance(default, str) and not isinstance(default, Enum):
        return f"`{default!r}`"  # and not the name of the constant that is written
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "field":
        [factory, *_] = [each.value for each in value.keywords if each.arg in ("default_factory", "default")]
        if isinstance(factory, ast.Lambda):
            return f"`{ast.unparse(factory.body)}`"
        return (
            f"`{ast.unparse(factory)}`"
            if isinstance(factory, ast.Constant)
            else f"`{ast.unparse(factory)}()`"
        )
    return f"`{ast.unparse(value)}`"


def _size(number: int) -> str:
    for unit, base in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number and number % base == 0:
            return f"`{number // base}` {unit}"
    return f"`{number}`"


def _linked(text: str) -> str:
    """References to rules and documents as links; bars as they are in a table."""
    text = re.sub(r"\bdocs/log-semantics\.md#rule-(\w+)", r"[rule \1](log-semantics.md#rule-\1)", text)
    text = re.sub(r"\bdocs/([\w-]+)\.md", r"[\1](\1.md)", text)
    return text.replace("|", "\\|")


def options_of(command: Any) -> Iterator[tuple[str, str, str]]:
    """Names, default and help of each option and argument but `--help`."""
    for parameter in command.params:
        if parameter.name == "help" or (parameter.name, parameter.help) in COMMON.items():
            continue
        names = ", ".join(f"`{name}`" for name in sorted(parameter.opts, key=len, reverse=True))
        if parameter.param_type_name == "argument":
            names = f"`{parameter.metavar or parameter.name.upper()}`"
        elif not parameter.is_flag:
            names = f"{names[:-1]} {_metavar(parameter)}`"
        elif parameter.secondary_opts:
            names += f", `{parameter.secondary_opts[0]}`"
        yield names, _shown(parameter), _linked(parameter.help or "")


def _metavar(parameter: Any) -> str:
    if parameter.metavar:
        return str(parameter.metavar)
    if choices := getattr(parameter.type, "choices", ()):
        return "\\|".join(choices)
    return "N" if parameter.type.name.startswith(("int", "float")) else "TEXT"


def _shown(parameter: Any) -> str:
    default = parameter.default
    if parameter.envvar:
        return f"`{parameter.envvar}`"
    if parameter.required:
        return "required"
    if default in (None, False, "") or callable(default):
        return NONE
    if default is True:
        return f"`{parameter.opts[0]}`"
    return f"`{default.value if isinstance(default, Enum) else default}`"


def commands_of(app: typer.Typer) -> Iterator[tuple[str, Any]]:
    """Each command by its name; those of a group with the group's."""
    for name, command in typer.main.get_group(app).commands.items():
        below = getattr(command, "commands", None)
        if below is None:
            yield name, command
        else:
            yield from ((f"{name} {other}", its) for other, its in below.items())


def _settings(config: type, says: str) -> Iterator[str]:
    yield from (
        f"### `{config.__name__}`",
        "",
        says,
        "",
        "| setting | default | unit | meaning |",
        "|---|---|---|---|",
    )
    for each in settings_of(config):
        yield f"| `{each.name}` | {each.default} | {each.unit} | {each.meaning} |"
    yield ""


def _commands(program: str, app: typer.Typer) -> Iterator[str]:
    for name, command in commands_of(app):
        yield from (f"### `{program} {name}`", "", inspect.cleandoc(command.help or "").splitlines()[0], "")
        yield from ("| option | default | meaning |", "|---|---|---|")
        yield from (f"| {names} | {default} | {text} |" for names, default, text in options_of(command))
        yield ""


def page() -> str:
    """The whole page."""
    lines = [INTRODUCTION, "## Settings of the API", ""]
    for config, says in API.items():
        lines += _settings(config, says)
    lines += method_parameters.lines()
    lines += ["## Settings of a bookie", ""]
    for config, says in BOOKIE.items():
        lines += _settings(config, says)
    lines += ["## Commands of `dlog`", "", ALL_COMMANDS, *_commands("dlog", dlog.cli.main.app)]
    lines += ["## Commands of `bookie`", "", *_commands("bookie", bookie_server.tools.cli.app)]
    return "\n".join(lines).rstrip("\n") + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(page(), "utf-8")
    else:
        sys.stdout.write(page())
