"""Values in metadata stores: of ledgers, bookies and the cluster, and the addresses of the stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kazoo.exceptions import MarshallingError

from ledger.errors import ConfigurationError, LogStoreError, MetadataFormatError, RecordNotFoundError
from ledger.metadata.format.cookie import cookie_differences, decode_cookie, encode_cookie
from ledger.metadata.format.layout import LAYOUT_BYTES_MAX, LayoutType, decode_layout, encode_layout
from ledger.metadata.format.ledger import decode_ledger_metadata, encode_ledger_metadata
from ledger.metadata.format.repair import (
    check_repair_layout,
    decode_check_time,
    decode_delay,
    decode_mark,
    encode_check_time,
    encode_mark,
    encode_repair_layout,
    merged_mark,
    shown_name,
)
from ledger.metadata.format.service_info import (
    bookie_info,
    decode_service_info,
    encode_service_info,
)
from ledger.metadata.ledger_paths import is_first_level, ledger_id_of, ledger_path
from ledger.metadata.memory import MemoryCluster, MemoryTransaction
from ledger.metadata.record_keys import check_key
from ledger.metadata.transactions import bookies, cluster, ledgers, records
from ledger.metadata.uri import parse_uri
from ledger.metadata.zookeeper.address import parse_address
from ledger.metadata.zookeeper.record_values import decode_value, encode_value
from ledger.metadata.zookeeper.session.multi_read import MultiRead
from ledger.model import BookieId, LedgerId
from tests.helpers.fuzz.cutting import Cutter
from tests.helpers.fuzz.target import Target, plain
from tests.helpers.metadata.vectors import nodes

_decode_ledger: Callable[[bytes], Any] = decode_ledger_metadata.__wrapped__
_bookie_info: Callable[..., Any] = bookie_info.__wrapped__


def ledger_metadata(data: bytes) -> None:
    """Format 3 encodes to the same bytes, the others to bytes that mean the same."""
    try:
        metadata = _decode_ledger(data)
    except MetadataFormatError:
        return
    encoded = encode_ledger_metadata(metadata)
    assert _decode_ledger(encoded) == metadata
    assert metadata.format_version != 3 or encoded == data


def cookie(data: bytes) -> None:
    try:
        found = decode_cookie(data)
    except MetadataFormatError:
        return
    assert cookie_differences(found, found) == []
    try:
        encoded = encode_cookie(found)
    except ConfigurationError:
        return  # a directory in it, of another program's cookie, has a character that ours do not write
    assert decode_cookie(encoded) == found


def repair_values(data: bytes) -> None:
    """One of the values of repair, as the first byte says. A mark keeps its meaning, and takes one bookie more."""
    kind, value = data[:1], data[1:]
    ledger_id = LedgerId(7)
    match kind:
        case b"m":
            merged = decode_mark(ledger_id, merged_mark(ledger_id, value, [BookieId("b:1")], 5))
            assert "b:1" in merged.missing
            try:
                found = decode_mark(ledger_id, value)
            except MetadataFormatError:
                return
            assert decode_mark(ledger_id, encode_mark(found)) == found
            assert set(merged.missing) == {*found.missing, "b:1"} and merged.marked_ms == found.marked_ms
        case b"l":
            try:
                check_repair_layout(value)
            except MetadataFormatError:
                return
        case b"t":
            time_ms = decode_check_time(value)
            assert time_ms is None or decode_check_time(encode_check_time(time_ms)) == time_ms
        case b"d":
            try:
                assert 0 <= decode_delay(value) < 2**31
            except MetadataFormatError:
                return
        case _:
            assert isinstance(shown_name(value), str)


def layout(data: bytes) -> None:
    try:
        found = decode_layout(data)
    except MetadataFormatError:
        return
    assert encode_layout(found) == data and len(data) <= LAYOUT_BYTES_MAX


def service_info(data: bytes) -> None:
    """What a bookie published: its endpoints, and where it is by them or by its id."""
    cutter = Cutter(data)
    bookie_id = BookieId(cutter.take(cutter.below(32)).decode("latin-1"))
    value = cutter.rest()
    try:
        info = decode_service_info(value)
    except MetadataFormatError:
        return
    assert decode_service_info(encode_service_info(info)) == info
    try:
        found = _bookie_info(bookie_id, value, read_only=False)
    except MetadataFormatError:
        return
    assert 0 < found.port < 65536


def address(data: bytes) -> None:
    """A valid address prints as one that means the same."""
    text = data.decode("utf-8", "surrogateescape")
    try:
        uri = parse_uri(text)
    except ConfigurationError:
        return
    uri.option("root")
    try:
        found = parse_address(uri)
    except ConfigurationError:
        return
    again = parse_address(parse_uri(found.uri))
    assert (again.servers, again.root, again.layout) == (found.servers, found.root, found.layout)
    assert again.session_timeout_ms == found.session_timeout_ms and again.auth_file == found.auth_file


def ledger_paths(data: bytes) -> None:
    """A path is that of one id, and every id below the limit has one."""
    cutter = Cutter(data)
    kind = list(LayoutType)[cutter.below(len(LayoutType))]
    if cutter.below(2):
        ledger_id = int.from_bytes(cutter.take(8), "big", signed=True)
        try:
            path = ledger_path(kind, ledger_id)
        except ConfigurationError:
            return
        assert ledger_id_of(kind, path) == ledger_id and is_first_level(kind, path.split("/")[1])
        return
    path = cutter.rest().decode("utf-8", "surrogateescape")
    try:
        ledger_id = ledger_id_of(kind, path)
    except MetadataFormatError:
        return
    assert ledger_path(kind, ledger_id) == path


def record_values(data: bytes) -> None:
    assert decode_value(encode_value(data)) == data
    decode_value(data)
    try:
        check_key(data.decode("utf-8", "surrogateescape"))
    except ConfigurationError:
        return


_STORED = (
    ("cluster/INSTANCEID", cluster.read_instance_id),
    ("cluster/LAYOUT", lambda tx: decode_layout(cluster.read_layout(tx))),
    (ledgers.LAST_ID_KEY, ledgers.new_id),
    (f"{ledgers.PREFIX}{7:019d}", lambda tx: _decode_ledger(ledgers.read(tx, 7).value)),
    ("bookies/writable/b:3181", bookies.bookies),
    ("cookies/b:3181", lambda tx: decode_cookie(records.read(tx, cluster.COOKIE_PREFIX, "b:3181").value)),
)


def multi_reads(data: bytes) -> None:
    """ZooKeeper's response to a request for up to 7 nodes."""
    cutter = Cutter(data)
    request = MultiRead(["/a"] * cutter.below(8))
    try:
        results = request.deserialize(cutter.rest(), 0)
    except MarshallingError:
        return
    assert len(results) == len(request.paths)


def stored_values(data: bytes) -> None:
    """What SQLite and the store in memory keep under each key that we read."""
    cutter = Cutter(data)
    key, read = _STORED[cutter.below(len(_STORED))]
    shared = MemoryCluster()
    shared.sessions.add("session")
    tx = MemoryTransaction(shared)
    tx.create(key, cutter.rest(), "session")
    try:
        read(tx)  # type: ignore[operator]
    except (MetadataFormatError, RecordNotFoundError):
        return
    except LogStoreError as error:
        raise AssertionError(f"{key}: {error!r}") from error


# ---- inputs to start from

_DIGITS = b"1" * 5000
"""More than Python converts to an int."""
_SPELLINGS = (
    b"zk+hierarchical://h1:2181;h2:2181/ledgers?session_timeout_ms=5000",
    b"zk://[::1]:2181,host/ledgers/a?auth_file=/x&root=/dlog",
    b"sqlite:///relative/file.db?root=/logs",
    b"sqlite:////absolute/file.db",
    b"memory:name",
    b"zk+null://h/ledgers",
    b"zk://h:" + _DIGITS + b"/ledgers",
    b"zk://h/ledgers?request_timeout_ms=" + _DIGITS,
)
_TEXT = (
    b"BookieMetadataFormatVersion\t2\nquorumSize: 2\nensembleSize: 3\nlength: 0\nstate: OPEN\nsegment {\n"
    b'  ensembleMember: "a:1"\n  ensembleMember: "b:1"\n  ensembleMember: "c:1"\n  firstEntryId: 0\n}\n'
    b'digestType: CRC32C\npassword: "p\\001\\303"\nackQuorumSize: 2\ncustomMetadata {\n  key: "k"\n  value: "v"\n}\n'
)
_LINES = b"BookieMetadataFormatVersion\t1\n2\n3\n100\n0\ta:1\tb:1\tc:1\n7\ta:1\tb:1\td:1\n9\tCLOSED"


def _nodes(part: str) -> Iterator[bytes]:
    for path, value, _ in nodes():
        if part in path:
            yield value


def _ledgers() -> Iterator[bytes]:
    yield from (value for _, value, _ in nodes() if value.startswith(b"BookieMetadataFormat"))
    yield _TEXT
    yield _TEXT.replace(b"length: 0", b"length: " + _DIGITS)
    yield _LINES
    yield _LINES.replace(b"9\tCLOSED", b"-102\tCLOSED")


def _cookies() -> Iterator[bytes]:
    yield from _nodes("/cookies/")
    yield b"3\n127.0.0.1:3181\n/j\n1\t/l\n"
    yield b'4\nbookieHost: "b:1"\njournalDir: "/j"\nledgerDirs: "2\\t/l\\t/m"\n# directory: ledger\n'


def _repair_values() -> Iterator[bytes]:
    for value in _nodes("/underreplication/ledgers/"):
        yield b"m" + value
    for value in _nodes("/underreplication/auditorelection"):
        yield b"v" + value
    yield b"l" + encode_repair_layout()
    yield b"t" + encode_check_time(1795212178982)
    yield b"d0"
    yield b"d86400"


def _registrations() -> Iterator[bytes]:
    for value in _nodes("/available/"):
        yield b"\x0b" + b"127.0.0.1:3" + value
        yield b"\x00" + value
    yield b"\x0b" + b"127.0.0.1:3"


def _paths() -> Iterator[bytes]:
    for number, kind in enumerate(LayoutType):
        for ledger_id in (0, 12345, 2**31 - 1, 2**31):
            yield bytes([number, 1]) + ledger_id.to_bytes(8, "big")
            yield bytes([number, 0]) + ledger_path(kind, ledger_id).encode()


def _multi_reads() -> Iterator[bytes]:
    stat = b"\0" * 68
    node, error, end = b"\0\0\0\4" + b"\0" * 5, b"\xff" * 4 + b"\0", b"\xff" * 4 + b"\1" + b"\xff" * 4
    code = b"\xff\xff\xff\x9b"
    yield b"\0" + end
    yield b"\1" + node + b"\0\0\0\3two" + stat + end
    yield b"\3" + node + b"\xff" * 4 + stat + error + code + code + node + b"\0" * 4 + stat + end


def _stored() -> Iterator[bytes]:
    values = (b"uuid", b"2\norg.apache.bookkeeper.meta.FlatLedgerManagerFactory:1", b"17", _LINES)
    for number, value in enumerate(values):
        yield bytes([number]) + value
    yield b"\x02" + _DIGITS
    yield b"\x02%d" % (2**63 - 1)
    yield from (b"\x04" + value for value in _nodes("/available/"))
    yield from (b"\x05" + value for value in _cookies())


TARGETS = [
    Target(
        name="ledger-metadata", session=plain(ledger_metadata), corpus=_ledgers, cost=2, input_bytes_max=8192
    ),
    Target(name="cookies", session=plain(cookie), corpus=_cookies, cost=2),
    Target(name="repair-values", session=plain(repair_values), corpus=_repair_values, cost=2),
    Target(name="layouts", session=plain(layout), corpus=lambda: _nodes("LAYOUT")),
    Target(name="service-info", session=plain(service_info), corpus=_registrations),
    Target(name="addresses", session=plain(address), corpus=lambda: _SPELLINGS, input_bytes_max=8192),
    Target(name="ledger-paths", session=plain(ledger_paths), corpus=_paths, input_bytes_max=128),
    Target(name="record-values", session=plain(record_values), corpus=lambda: (b"", b"\0", b"/a/b")),
    Target(name="multi-reads", session=plain(multi_reads), corpus=_multi_reads),
    Target(name="stored-values", session=plain(stored_values), corpus=_stored, input_bytes_max=8192),
]
