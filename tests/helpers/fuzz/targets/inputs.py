"""What people write: input of `dlog append`, settings files of a bookie."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bookie_server.config_file import make_config, read_settings
from dlog.cli.input_formats import InputFormat, Keyed, read_messages
from ledger.errors import ConfigurationError
from tests.helpers.fuzz.cutting import Cutter, pieces
from tests.helpers.fuzz.target import Run, Target, plain

_FORMS = list(InputFormat)


def append_input(data: bytes) -> None:
    """However the input is cut into chunks, it is the same messages, or no valid input."""
    cutter = Cutter(data)
    form = _FORMS[cutter.below(len(_FORMS))]
    keyed = cutter.below(2) and form in (InputFormat.CSV, InputFormat.JSONL)
    cuts = cutter.take(cutter.below(12))
    text = cutter.rest()
    whole = _messages([text], form, "k" if keyed else None)
    assert _messages(list(pieces(text, cuts)), form, "k" if keyed else None) == whole
    if whole is not None and form is InputFormat.LINES:
        assert b"\n".join(message.payload for message in whole) == text.removesuffix(b"\n")


def _messages(chunks: list[bytes], form: InputFormat, key_column: str | None) -> list[Keyed] | None:
    try:
        return [message for group in read_messages(chunks, form, key_column) for message in group]
    except ConfigurationError:
        return None


@contextmanager
def settings_session() -> Iterator[Run]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "bookie.toml"

        def run(data: bytes) -> None:
            path.write_bytes(data)
            try:
                make_config(read_settings(path), {"metadata": "memory:x"})
            except ConfigurationError:
                return

        yield run


_TABLE = b"""metadata = "sqlite:////m/meta.db"
data = "/var/lib/dlog"
host = "127.0.0.1"
port = 3181
[limits]
connections_max = 10
[storage]
limbo_on_damage = true
checkpoint_interval_s = 2.5
"""


def _inputs() -> Iterator[bytes]:
    csv = b'k,v\r\n1,"a\nb"\r\n2,"say ""x"""\r\n\r\n3,c'
    jsonl = b'{"k": "a"}\n{"k": [1, 2.5, null]}\n\n"text"\n'
    lengths = b"\x00\x00\x00\x03abc\x00\x00\x00\x00\x00\x00\x00\x01z"
    for number, text in enumerate((b"one\ntwo\r\n\nthree", csv, jsonl, lengths)):
        for keyed in (0, 1):
            yield bytes([number, keyed, 3, 2, 5, 1]) + text
    yield bytes([2, 1, 0]) + b'{"k": ' + b"7" * 5000 + b"}"
    yield bytes([2, 0, 0]) + b"[" * 3000


def _settings() -> Iterator[bytes]:
    yield _TABLE
    yield b"port = " + b"7" * 5000
    yield b"port = " + b"[" * 3000
    yield b'port = 1\n"\\ud800" = 1\n'


TARGETS = [
    Target(
        name="append-input",
        session=plain(append_input),
        corpus=_inputs,
        input_bytes_max=1024,
        memory_base=1 << 20,
    ),
    Target(
        name="settings-files",
        session=settings_session,
        corpus=_settings,
        input_bytes_max=1024,
        memory_base=1 << 20,
        memory_per_byte=1024,
        cost=2,
    ),
]
