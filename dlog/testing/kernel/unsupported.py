"""What the simulated loop refuses, and why, in one place."""

from __future__ import annotations

import asyncio
from typing import Any

from dlog.testing.errors import NotSupportedInSimulationError

_THREADS = (
    "threads run outside of virtual time; hand the work to a simulated disk worker or do it on the loop"
)
_PROCESSES = "a simulated process is a node: start the program's coroutine on a new one"
_SIGNALS = "a simulated process gets no signals: use kill, pause and resume of the loop"
_SOCKETS = "only create_connection and create_server are simulated, with a host and a port"
_PIPES = "there are no pipes and no terminals in it"
_LOOP = "tasks must be the loop's own, so that their order is the same in every run"

_REASONS = {
    _THREADS: ("run_in_executor", "set_default_executor"),
    _PROCESSES: ("subprocess_exec", "subprocess_shell"),
    _SIGNALS: ("add_signal_handler", "remove_signal_handler"),
    _LOOP: ("a task factory", "asyncio's debug mode"),
    _PIPES: ("connect_read_pipe", "connect_write_pipe"),
}
_REASON_OF = {name: reason for reason, names in _REASONS.items() for name in names}
_HARMLESS = frozenset({"reuse_address", "reuse_port", "family", "flags", "proto"})


def refusal(name: str) -> NotSupportedInSimulationError:
    """The error for a call of this name."""
    reason = _REASON_OF.get(name, _SOCKETS)
    return NotSupportedInSimulationError(f"{name} is not supported in simulation: {reason}")


def refuse_options(name: str, options: dict[str, object]) -> None:
    """Refuse a call with options that it does not have; those that ask for nothing special are harmless."""
    for option, value in options.items():
        if value and option not in _HARMLESS:
            raise refusal(f"{name}({option}=…)")


def _refused(name: str) -> Any:
    def refuse(self: object, *args: object, **options: object) -> Any:
        raise refusal(name)

    refuse.__name__ = name
    return refuse


class RefusingLoop(asyncio.AbstractEventLoop):
    """The part of an event loop that leaves the simulation."""

    run_in_executor = _refused("run_in_executor")
    set_default_executor = _refused("set_default_executor")
    subprocess_exec = _refused("subprocess_exec")
    subprocess_shell = _refused("subprocess_shell")
    add_signal_handler = _refused("add_signal_handler")
    remove_signal_handler = _refused("remove_signal_handler")
    connect_read_pipe = _refused("connect_read_pipe")
    connect_write_pipe = _refused("connect_write_pipe")
    add_reader = _refused("add_reader")
    remove_reader = _refused("remove_reader")
    add_writer = _refused("add_writer")
    remove_writer = _refused("remove_writer")
    getaddrinfo = _refused("getaddrinfo")
    getnameinfo = _refused("getnameinfo")
    sock_recv = _refused("sock_recv")
    sock_recv_into = _refused("sock_recv_into")
    sock_recvfrom = _refused("sock_recvfrom")
    sock_recvfrom_into = _refused("sock_recvfrom_into")
    sock_sendto = _refused("sock_sendto")
    sock_sendall = _refused("sock_sendall")
    sock_connect = _refused("sock_connect")
    sock_accept = _refused("sock_accept")
    sock_sendfile = _refused("sock_sendfile")
    sendfile = _refused("sendfile")
    start_tls = _refused("start_tls")
    create_unix_connection = _refused("create_unix_connection")
    create_unix_server = _refused("create_unix_server")
    connect_accepted_socket = _refused("connect_accepted_socket")
    create_datagram_endpoint = _refused("create_datagram_endpoint")

    async def shutdown_asyncgens(self) -> None:
        """Unfinished generators are closed with the loop."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """There is no executor."""

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        if enabled:
            raise refusal("asyncio's debug mode")

    def get_task_factory(self) -> Any:
        return None

    def set_task_factory(self, factory: Any) -> None:
        if factory is not None:
            raise refusal("a task factory")
