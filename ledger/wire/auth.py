"""The AuthMessage inside v2 and v3 frames, protobuf in both. Pure.

The same message is a field of the v3 envelope and the whole rest of a v2 AUTH frame
(docs/bookkeeper.md#authentication).
"""

from google.protobuf.message import DecodeError

from ledger.errors import ProtocolError
from ledger.wire import bookkeeper_pb2 as pb
from ledger.wire.entry import Buffer


def encode_auth(plugin_name: str, payload: bytes) -> bytes:
    return pb.AuthMessage(authPluginName=plugin_name, payload=payload).SerializeToString()


def decode_auth(body: Buffer) -> tuple[str, bytes]:
    """Plugin name and payload; ProtocolError unless both are there and the name is text."""
    message = pb.AuthMessage()
    try:
        message.ParseFromString(bytes(body))
    except (DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"{len(body)} bytes are no AuthMessage; drop the connection") from error
    return auth_fields(message)


def auth_fields(message: pb.AuthMessage) -> tuple[str, bytes]:
    """The fields of a parsed message, which may still lack one."""
    if not message.IsInitialized():
        raise ProtocolError("an AuthMessage lacks its plugin name or its payload; drop the connection")
    # proto2 does not check text while parsing: what is not UTF-8 comes out as bytes.
    name: str | bytes = message.authPluginName
    if not isinstance(name, str):
        raise ProtocolError(f"an auth plugin name of {len(name)} bytes is not UTF-8; drop the connection")
    return name, message.payload
