"""The parameters of the API's functions and methods, for docs/options.md.

Names, defaults and types are those of the code, the meanings are here.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import dlog

CLASSES: dict[type, str] = {
    dlog.Client: "What `dlog.connect` returns.",
    dlog.Reader: "What `Client.reader` and `Client.tail` return.",
    dlog.Writer: "What `Client.open_writer` returns.",
    dlog.Producer: "What `Writer.producer` returns ([producers](api.md#producers)).",
    dlog.MetadataCache: "What `Client.metadata_cache` returns ([a cache of metadata](api.md#a-cache-of-metadata)).",
}
NOT_FOR_USERS = {"Client.abandon", "Client.warn_unclosed", "Writer.drain"}
"""They end a client that was dropped."""

FUNCTIONS = {"connect": dlog.connect, "standalone": dlog.standalone, "arrow.scan": dlog.arrow.scan}

INTRODUCTION = """`dlog.aio` and its objects have the same functions and methods with the same parameters.
Those from `*` on are passed by name.
The tables leave out two that are always the same:
`log`, the name of a log in the client's namespace,
and the `timeout_s` of the blocking API, passed by name to any call that waits.
After this time it is cancelled ([timeouts](api.md#timeouts-blocking-api)).
`help` of a method has its errors and the details.
"""

MEANINGS = {
    "batch_rows": "Rows of a record batch; the last one has fewer.",
    "before": "Messages below this id become invisible for good.",
    "changes": "Texts by name; None removes one ([properties](api.md#properties)).",
    "columns": "Columns, in this order; None: all but `headers` ([columns](arrow.md#columns)).",
    "config": "Settings of the reader ([`ReaderConfig`](#readerconfig)).",
    "create": "Whether a missing log is created.",
    "cursor": "Name of a cursor.",
    "expect_tail": "Append only if the log's last message has this id; `dlog.NO_MESSAGE`: if it has none.",
    "first_sequence": "Sequence of the first message; each next one has the next.",
    "force": "Whether a writer that does not answer, or cannot rotate, is fenced and its ledger sealed.",
    "given_up": "Ids of listed ledgers that are lost, and whose loss is accepted.",
    "hand_over": "Whether the current writer is asked to end, or only waited for.",
    "headers": "Headers of the message: pairs of name and value.",
    "key": "Key of the message.",
    "keys": "A key for each message.",
    "ledger_ids": "Ids of ledgers.",
    "logs": "Names of logs.",
    "message_id": "Id of the message.",
    "name": "Name of a producer.",
    "on_data_loss": "What to do about messages that are lost ([policies](api.md#gaps)); `skip` is refused.",
    "on_progress": "Called with the number of entries that were just checked.",
    "on_takeover_lost": "What to do if another client takes the log over first.",
    "on_trimmed": "What to do about messages that were trimmed ([policies](api.md#gaps)).",
    "payload": "The message; None is a tombstone.",
    "payloads": "The messages; None is a tombstone. They become one entry.",
    "position": "Where the cursor is set, forward or back.",
    "properties": "Texts by name, stored with the cursor.",
    "retention": "What of the log is kept ([`Retention`](#retention)).",
    "seen": "The snapshot that the caller has.",
    "sequence": "Sequence of the message, above that of the one before.",
    "timeout_s": "Longest time that the call waits, in seconds.",
    "until": "Where the reader ends, exclusive; None: it waits for more messages.",
    "wait_for_current_owner": "How many seconds the current writer has to end before it is fenced; None: it is fenced "
    "immediately ([taking over](api.md#taking-over-from-a-running-writer)).",
    # Of one method:
    "arrow.scan.after": "Start after this id, exclusive.",
    "arrow.scan.last": "Start this number of messages before the tail.",
    "arrow.scan.namespace": "The namespace of the log.",
    "arrow.scan.on_data_loss": "What to do about messages that are lost ([policies](api.md#gaps)).",
    "arrow.scan.on_trimmed": "What to do about messages that were trimmed ([policies](api.md#gaps)).",
    "arrow.scan.password": "That of the log's ledgers, as [`LogConfig.password`](#logconfig).",
    "arrow.scan.start": "Where the scan starts, inclusive; None: `earliest`.",
    "arrow.scan.until": "Where the scan ends, exclusive.",
    "arrow.scan.uri": "[Address](metadata.md) of the metadata store; None: that in DLOG_METADATA.",
    "Client.close.timeout_s": "Longest wait for appends, in seconds; then those in flight end indeterminate.",
    "connect.config": "Settings of the client ([`LogConfig`](#logconfig)).",
    "connect.namespace": "The namespace of the client's logs.",
    "connect.uri": "[Address](metadata.md) of the metadata store; None: that in DLOG_METADATA.",
    "Client.plan_retention.retention": "The retention to try; None: the log's own.",
    "Client.reader.after": "Start after this id, exclusive.",
    "Client.reader.cursor": "Name of a [cursor](api.md#cursors): the reader starts there, and `ack` moves it.",
    "Client.reader.last": "Start this number of messages before the tail.",
    "Client.reader.start": "Where the reader starts, inclusive; None: `earliest`.",
    "Client.tail.follow": "Whether the reader waits for more messages at the tail as of its opening, or ends there.",
    "Client.tail.last": "Start this number of messages before the tail; 0 is the tail.",
    "Client.tail.start": "Where the reader starts, inclusive; None: `latest`.",
    "MetadataCache.forget.key": "Name of a log, or id of a ledger.",
    "MetadataCache.refresh.key": "Name of a log, or id of a ledger.",
    "Producer.append_many.headers": "Headers of each message.",
    "Producer.submit_many.headers": "Headers of each message.",
    "Reader.ack.upto": "The last message that is acknowledged; None: all that were returned.",
    "Reader.poll.timeout_s": "Longest wait, in seconds; 0: only what is fetched; None: until there is a message.",
    "standalone.bookies": "How many bookies to run, 1 to 64, plus those with data in the directory.",
    "standalone.directory": "Directory of all data; it is created if it is missing.",
    "standalone.metadata": "[Address](metadata.md) of another metadata store than the directory's own.",
    "standalone.report": "Called, in another thread, with a sentence for each event.",
    "standalone.restart": "Whether bookies that die are restarted.",
    "Writer.append_many.headers": "Headers of each message.",
    "Writer.close.timeout_s": "Longest wait for appends, in seconds; then those in flight end indeterminate.",
    "Writer.submit_many.headers": "Headers of each message.",
}
"""By the name of the parameter, or with its class and method."""

ALIASES = {
    "Where": "[position](api.md#positions)",
    "Buffer": "`bytes`",
    "Headers": "pairs of `bytes`",
    "Progress": "function",
    "Report": "function",
}


ACCEPTS = {
    "Client.reader.after": "`MessageId`, `str`",
    "arrow.scan.after": "`MessageId`, `str`",
    "arrow.scan.on_data_loss": "`fail`",
    "arrow.scan.on_trimmed": "`fail`, `skip`",
}
"""Of a parameter that accepts less than its type."""


def methods_of(api: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Public methods in the order of the class."""
    for name, method in vars(api).items():
        is_public = not name.startswith("_") and f"{api.__name__}.{name}" not in NOT_FOR_USERS
        if is_public and inspect.isfunction(method):
            yield name, method


def rows_of(name: str, function: Callable[..., Any]) -> Iterator[str]:
    """A row of the table for each parameter that is not in every one."""
    is_named = False
    for each in inspect.signature(function).parameters.values():
        if each.name == "self":
            continue
        by_name = each.kind is each.KEYWORD_ONLY
        if each.name == "log" or (each.name == "timeout_s" and by_name):
            continue
        if by_name and not is_named:
            is_named = True
            shown = f"`*`, `{each.name}`"
        else:
            shown = f"`{each.name}`"
        default = "required" if each.default is each.empty else f"`{_value(each.default)!r}`"
        yield f"| {shown} | {default} | {_accepts(function, name, each)} | {_meaning(name, each.name)} |"


def _value(default: Any) -> Any:
    return str(default.value) if isinstance(default, Enum) else default


def _accepts(function: Callable[..., Any], name: str, parameter: inspect.Parameter) -> str:
    if (known := ACCEPTS.get(f"{name}.{parameter.name}")) is not None:
        return known
    names = vars(sys.modules[function.__module__])
    kinds = [kind for kind in parameter.annotation.split(" | ") if kind != "None"]
    for kind in kinds:
        found = names.get(kind)
        if isinstance(found, type) and issubclass(found, Enum):
            return ", ".join(f"`{each.value}`" for each in found)
    return ", ".join(ALIASES.get(kind) or f"`{_plain(kind)}`" for kind in _whole(kinds))


def _whole(kinds: list[str]) -> list[str]:
    """A bar inside brackets does not separate."""
    whole: list[str] = []
    for kind in kinds:
        if whole and whole[-1].count("[") > whole[-1].count("]"):
            whole[-1] += f" or {kind}"
        else:
            whole.append(kind)
    return whole


def _plain(kind: str) -> str:
    return re.sub(r"\bBuffer\b", "bytes", re.sub(r"\bHeaders\b", "pairs of bytes", kind))


def _meaning(function: str, name: str) -> str:
    meaning = MEANINGS.get(f"{function}.{name}") or MEANINGS.get(name)
    if meaning is None:
        raise LookupError(f"what does {name} of {function} mean?")
    return meaning


def table(name: str, function: Callable[..., Any]) -> list[str]:
    """With a heading and what the function does; nothing without parameters."""
    rows = list(rows_of(name, function))
    if not rows:
        return []
    first = " ".join(inspect.cleandoc(function.__doc__ or "").split("\n\n")[0].split())
    head = ["| parameter | default | accepts | meaning |", "|---|---|---|---|"]
    return [f"#### `{name}`", "", first, "", *head, *rows, ""]


def lines() -> Iterator[str]:
    """The section."""
    yield from ("## Functions and methods", "", INTRODUCTION, "### `dlog`", "")
    for name, function in FUNCTIONS.items():
        yield from table(name, function)
    for api, says in CLASSES.items():
        yield from (f"### `{api.__name__}`", "", says, "")
        tables = {name: table(f"{api.__name__}.{name}", method) for name, method in methods_of(api)}
        for found in tables.values():
            yield from found
        if without := [f"`{name}`" for name, found in tables.items() if not found]:
            yield from (f"Without other parameters: {', '.join(without)}.", "")
