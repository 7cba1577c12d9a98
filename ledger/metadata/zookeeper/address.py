"""`zk+hierarchical://h1:2181;h2:2181/ledgers?option=value` ↔ servers, root, layout and options. Pure.

The layout's name after `zk+` may be missing or `null`: then LAYOUT decides, and hierarchical where there is none.
Servers are separated by `;` as BookKeeper does it, or by `,`. The path is the root of the ledgers.

    session_timeout_ms   how long ZooKeeper keeps our registrations when it does not hear from us   10000
    request_timeout_ms   how long a call waits, for a connection or for its answer                   10000
    auth_file            a file with one line `user:password` for digest authentication; nodes are then made
                         for their creator only, as BookKeeper does it with zkEnableSecurity
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl, quote, urlencode

from ledger.digits import whole_number
from ledger.errors import ConfigurationError
from ledger.metadata.format.layout import LayoutType
from ledger.metadata.uri import MetadataUri, check_options, without_password

DEFAULT_PORT = 2181
TIMEOUT_MS = 10_000
_TIMEOUT_MS_MIN, _TIMEOUT_MS_MAX = 100, 3_600_000

_OPTIONS = ("session_timeout_ms", "request_timeout_ms", "auth_file")
_HOST = re.compile(r"[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?|\[[0-9A-Fa-f:.]+\]")
_PART = re.compile(r"[!-.0-~]+")
_EXAMPLE = "zk+hierarchical://host1:2181;host2:2181/ledgers"


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperAddress:
    """A valid address. `layout` is None where LAYOUT is to decide; `query` keeps the options of other layers."""

    servers: tuple[str, ...]
    root: str
    layout: LayoutType | None = None
    session_timeout_ms: int = TIMEOUT_MS
    request_timeout_ms: int = TIMEOUT_MS
    auth_file: str | None = None
    query: str = ""

    @property
    def uri(self) -> str:
        scheme = f"zk+{self.layout.value}" if self.layout else "zk"
        query = f"?{self.query}" if self.query else ""
        return f"{scheme}://{';'.join(self.servers)}{self.root}{query}"

    def with_auth_file(self, path: str) -> ZooKeeperAddress:
        """The same with another name of that file."""
        options = [(name, path if name == "auth_file" else value) for name, value in parse_qsl(self.query)]
        return replace(self, auth_file=path, query=urlencode(options, safe="/", quote_via=quote))


def parse_address(uri: MetadataUri) -> ZooKeeperAddress:
    """ConfigurationError for anything that is no address of ours: one sentence that shows a right one."""
    if not uri.rest.startswith("//"):
        raise _wrong(uri, "it lacks // after the scheme")
    servers, slash, path = uri.rest[2:].partition("/")
    check_options(uri, _OPTIONS)
    options = dict(parse_qsl(uri.query))
    return ZooKeeperAddress(
        servers=tuple(_server(uri, text) for text in re.split("[;,]", servers)),
        root=_root(uri, slash + path),
        layout=_layout(uri),
        session_timeout_ms=_timeout(uri, options, "session_timeout_ms"),
        request_timeout_ms=_timeout(uri, options, "request_timeout_ms"),
        auth_file=options.get("auth_file"),
        query=uri.query,
    )


def _layout(uri: MetadataUri) -> LayoutType | None:
    name = uri.scheme.partition("+")[2]
    if name in ("", "null"):
        return None
    try:
        return LayoutType(name)
    except ValueError:
        known = ", ".join(layout.value for layout in LayoutType)
        raise _wrong(uri, f"{name!r} is no ledger manager, known are {known}") from None


def _server(uri: MetadataUri, text: str) -> str:
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(DEFAULT_PORT)
    if not _HOST.fullmatch(host) or not whole_number(port, 65535):
        raise _wrong(uri, f"{text!r} is no host:port")
    return f"{host}:{port}"


def _root(uri: MetadataUri, path: str) -> str:
    path = path.rstrip("/")
    if not path:
        raise _wrong(uri, "it lacks the path of the ledgers")
    parts = path[1:].split("/")
    if not all(_PART.fullmatch(part) and part not in (".", "..") for part in parts):
        raise _wrong(uri, f"{path!r} is no path in ZooKeeper")
    if parts[0] == "zookeeper":
        raise _wrong(uri, "ZooKeeper keeps /zookeeper for itself")
    return path


def _timeout(uri: MetadataUri, options: dict[str, str], name: str) -> int:
    text = options.get(name, str(TIMEOUT_MS))
    number = whole_number(text, _TIMEOUT_MS_MAX)
    if number is None or number < _TIMEOUT_MS_MIN:
        raise _wrong(uri, f"{name} is {text[:40]!r}, not {_TIMEOUT_MS_MIN} to {_TIMEOUT_MS_MAX}")
    return number


def _wrong(uri: MetadataUri, why: str) -> ConfigurationError:
    sentence = f"metadata address {uri.text!r} is not valid: {why}"
    return ConfigurationError(f"{without_password(sentence)}; write {_EXAMPLE}")
