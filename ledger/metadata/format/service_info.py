"""What a registered bookie publishes ↔ bytes (BookieServiceInfoFormat). Pure.

A bookie of dlog publishes one endpoint `bookie` with protocol `bookie-rpc`; Apache's may publish more.
Empty bytes are legacy: the bookie id is `host:port`. docs/formats.md, Metadata values;
docs/bookkeeper.md#registration.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from google.protobuf.message import DecodeError

from ledger.digits import whole_number
from ledger.errors import MetadataFormatError
from ledger.metadata.format.data_formats_pb2 import BookieServiceInfoFormat
from ledger.model import BookieId, BookieInfo

BOOKIE_RPC = "bookie-rpc"
SERVICE_INFO_BYTES_MAX = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    id: str
    port: int
    host: str
    protocol: str
    auth: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServiceInfo:
    endpoints: tuple[Endpoint, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()


def encode_service_info(info: ServiceInfo) -> bytes:
    message = BookieServiceInfoFormat()
    for endpoint in info.endpoints:
        message.endpoints.add(
            id=endpoint.id.encode(),
            port=endpoint.port,
            host=endpoint.host.encode(),
            protocol=endpoint.protocol.encode(),
            auth=[name.encode() for name in endpoint.auth],
            extensions=[name.encode() for name in endpoint.extensions],
        )
    for key, value in info.properties:
        message.properties.add(key=key.encode(), value=value.encode())
    return message.SerializeToString()


def decode_service_info(data: bytes) -> ServiceInfo:
    """The published value, or MetadataFormatError. Fields that we do not know are passed over."""
    if len(data) > SERVICE_INFO_BYTES_MAX:
        raise MetadataFormatError(f"service info of {len(data)} bytes is above {SERVICE_INFO_BYTES_MAX}")
    message = BookieServiceInfoFormat()
    try:
        message.ParseFromString(data)
        if not message.IsInitialized():
            raise MetadataFormatError("service info has an endpoint without id, port, host or protocol")
        return ServiceInfo(
            tuple(_endpoint(endpoint) for endpoint in message.endpoints),
            tuple((item.key.decode(), item.value.decode()) for item in message.properties),
        )
    except (DecodeError, UnicodeDecodeError) as error:
        raise MetadataFormatError(f"service info is damaged: {error}") from error


def published(info: BookieInfo) -> bytes:
    """What a bookie registers: the same bytes whether it is writable or read-only."""
    endpoint = Endpoint(id="bookie", port=info.port, host=info.host, protocol=BOOKIE_RPC)
    return encode_service_info(ServiceInfo((endpoint,), info.properties))


@lru_cache(maxsize=256)
def bookie_info(bookie_id: BookieId, data: bytes, *, read_only: bool) -> BookieInfo:
    """Where a registered bookie is: its first bookie-rpc endpoint, or its id by the legacy rule.

    The results are kept: with every look at the list of bookies nearly all of them are as before.
    """
    info = decode_service_info(data)
    for endpoint in info.endpoints:
        if endpoint.protocol == BOOKIE_RPC:
            host, port = endpoint.host, endpoint.port
            break
    else:
        host, port = _legacy_address(bookie_id)
    if not 0 < port < 65536:
        raise MetadataFormatError(f"bookie {bookie_id} publishes port {port}, which no bookie can have")
    return BookieInfo(
        bookie_id=bookie_id, host=host, port=port, read_only=read_only, properties=info.properties
    )


def _endpoint(message: BookieServiceInfoFormat.Endpoint) -> Endpoint:
    return Endpoint(
        id=message.id.decode(),
        port=message.port,
        host=message.host.decode(),
        protocol=message.protocol.decode(),
        auth=tuple(name.decode() for name in message.auth),
        extensions=tuple(name.decode() for name in message.extensions),
    )


def _legacy_address(bookie_id: BookieId) -> tuple[str, int]:
    host, colon, port = bookie_id.partition(":")
    number = whole_number(port, 65535)
    if not (host and colon) or number is None:
        raise MetadataFormatError(
            f"bookie {bookie_id} publishes no bookie-rpc endpoint and its id is no host:port"
        )
    return host, number
