"""What a command says of a bookie whose control socket takes no connection."""

from __future__ import annotations

import errno
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from bookie_server.control.messages import SOCKET_NAME, Command, Request
from bookie_server.control.server import socket_address
from bookie_server.storage.config import StorageConfig
from bookie_server.tools.running_bookie import ask_running
from ledger.errors import BookieUnavailableError


def test_a_socket_that_takes_no_connection_is_named(tmp_path: Path) -> None:
    """As that of another user's bookie, whose error has no file name either."""
    ledgers = tmp_path / "ledgers"
    ledgers.mkdir()
    config = StorageConfig(journal_directory=tmp_path / "journal", ledger_directory=ledgers)
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        with socket_address(ledgers) as address:
            listener.bind(address)
            listener.listen(0)
            waiting = stack.enter_context(socket.socket(socket.AF_UNIX))
            waiting.connect(address)  # fills the queue
        with pytest.raises(BookieUnavailableError, match=f"bookie at {ledgers / SOCKET_NAME}: "):
            ask_running(config, Request(Command.STATUS))


def test_the_socket_of_another_user_says_whose_command_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledgers = tmp_path / "ledgers"
    ledgers.mkdir()
    config = StorageConfig(journal_directory=tmp_path / "journal", ledger_directory=ledgers)

    def refused(self: socket.socket, address: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket.socket, "connect", refused)
    with pytest.raises(
        BookieUnavailableError, match=r"Permission denied; be the user that the bookie runs as$"
    ):
        ask_running(config, Request(Command.STATUS))
