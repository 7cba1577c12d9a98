"""Asks the bookie that runs on some directories, over its control socket. Blocks."""

from __future__ import annotations

import socket
from typing import Any

from bookie_server.control.messages import (
    HEARTBEAT_S,
    SOCKET_NAME,
    Request,
    decode_answer,
    encode_request,
)
from bookie_server.control.server import socket_address
from bookie_server.storage.config import StorageConfig
from ledger.errors import BookieUnavailableError, ProtocolError, UnavailableError

_SILENT_S = 10 * HEARTBEAT_S
_ANSWER_BYTES_MAX = 256 * 1024 * 1024


def ask_running(config: StorageConfig, request: Request) -> Any:
    """The result of the request; None if no bookie runs on these directories, or none that can be asked.

    Waits for as long as the bookie works on it.

    Raises:
        BookieUnavailableError: it does not respond.
        UnavailableError: it has not done it, for the reason that it gives.
    """
    directory = config.ledger_directory
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.settimeout(_SILENT_S)
        try:
            with socket_address(directory) as address:
                link.connect(address)
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
            return None  # a bookie that was killed leaves its socket
        except OSError as error:
            # Of another user's bookie, or one that has hung while many commands ask it.
            way_out = (
                "be the user that the bookie runs as" if isinstance(error, PermissionError) else "try again"
            )
            raise BookieUnavailableError(
                f"cannot connect to the bookie at {directory / SOCKET_NAME}: {error.strerror or error}; {way_out}"
            ) from error
        try:
            link.sendall(encode_request(request))
            with link.makefile("rb") as answers:
                while True:
                    line = answers.readline(_ANSWER_BYTES_MAX)
                    if not line.endswith(b"\n"):
                        raise ProtocolError("it closed the connection")
                    answer = decode_answer(line)
                    if answer is not None:
                        break
        except (OSError, ProtocolError) as error:
            reason = f"nothing for {_SILENT_S:g} s" if isinstance(error, TimeoutError) else str(error)
            raise BookieUnavailableError(
                f"the bookie at {directory / SOCKET_NAME} has not responded: {reason}"
            ) from error
    if answer.error:
        raise UnavailableError(answer.error)
    return answer.result
