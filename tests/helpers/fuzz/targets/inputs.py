"""What people write: input of `dlog append`, settings files of a bookie."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bookie_server.config_file import make_config, read_settings
from dlog.cli.input.csv_rows import Columns
from dlog.cli.input.formats import InputFormat, InputOptions, read_messages
from dlog.cli.input.gzip_chunks import OUTPUT_BYTES, decompressed
from dlog.cli.input.message import NewMessage
from ledger.errors import ConfigurationError
from tests.helpers.fuzz.cutting import Cutter, pieces
from tests.helpers.fuzz.target import Run, Target, plain

_FORMS = list(InputFormat)


def append_input(data: bytes) -> None:
    """However the input is cut into chunks, it is the same messages, or no valid input."""
    cutter = Cutter(data)
    options = _options(cutter)
    cuts = cutter.take(cutter.below(12))
    text = cutter.rest()
    whole = _messages([text], options)
    assert _messages(list(pieces(text, cuts)), options) == whole
    if whole is not None and options == InputOptions():
        assert b"\n".join(message.payload or b"" for message in whole) == text.removesuffix(b"\n")


def _options(cutter: Cutter) -> InputOptions:
    """A format, and one of the options that it has."""
    form = _FORMS[cutter.below(len(_FORMS))]
    which = cutter.below(4)
    match form, which:
        case InputFormat.LINES, 1:
            return InputOptions(form=form, key_delimiter=b":")
        case ((InputFormat.CSV | InputFormat.JSONL), 1):
            return InputOptions(form=form, key_column="k")
        case InputFormat.CSV, 2:
            return InputOptions(form=form, columns=Columns.JSON, key_column="k")
        case InputFormat.CSV, 3:
            return InputOptions(form=form, columns=Columns.HEADERS, key_column="k", payload_column="v")
        case _, 3:
            return InputOptions(form=form, headers=((b"h", b"v"),), tombstones=True)
        case _:
            return InputOptions(form=form)


def _messages(chunks: list[bytes], options: InputOptions) -> list[NewMessage] | None:
    try:
        return [message for group in read_messages(chunks, options) for message in group]
    except ConfigurationError:
        return None


def gzip_input(data: bytes) -> None:
    """However the input is cut into chunks, it decompresses to the same bytes, or is refused."""
    cutter = Cutter(data)
    cuts = cutter.take(cutter.below(12))
    compressed = cutter.rest()
    whole = _decompressed([compressed])
    assert _decompressed(list(pieces(compressed, cuts))) == whole


def _decompressed(chunks: list[bytes]) -> bytes | None:
    found = []
    try:
        for chunk in decompressed(chunks):
            assert len(chunk) <= OUTPUT_BYTES
            found.append(chunk)
    except ConfigurationError:
        return None
    return b"".join(found)


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
    described = b'{"key": "a", "payload": null}\n{"payload_base64": "/w==", "headers": [{"key": "h", "value": "v"}]}\n'
    for number, text in enumerate((b"one\nk:two\r\n\nthree", csv, jsonl, described, lengths)):
        for which in range(4):
            yield bytes([number, which, 3, 2, 5, 1]) + text
    yield bytes([2, 1, 0]) + b'{"k": ' + b"7" * 5000 + b"}"
    yield bytes([2, 0, 0]) + b"[" * 3000
    yield bytes([2, 1, 0]) + b'{"k": "\\ud800"}'


def _gzips() -> Iterator[bytes]:
    one, two = gzip.compress(b"one\n" * 100, mtime=0), gzip.compress(b"", mtime=0)
    for data in (one, one + two, one + b"\0" * 8, one[:-3], one + b"rest", two):
        yield bytes([3, 2, 5, 1]) + data


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
        name="gzip-input",
        session=plain(gzip_input),
        corpus=_gzips,
        input_bytes_max=1024,
        memory_base=8 << 20,
        memory_per_byte=4096,
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
