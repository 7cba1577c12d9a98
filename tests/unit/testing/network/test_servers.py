"""Listening and connecting."""

from __future__ import annotations

import asyncio
import errno

import pytest

from tests.helpers.simulation.loop import Recorder, pair, simulate


async def listen(loop, node, port=80, host="0.0.0.0", **options):
    async def serve():
        return await loop.create_server(Recorder, host, port, **options)

    return await loop.create_task_on(node, serve())


def test_a_port_of_zero_becomes_a_free_one_and_a_taken_one_is_refused() -> None:
    async def main(loop):
        node = loop.boot("server")
        first, second = await listen(loop, node, 0), await listen(loop, node, 0)
        ports = [server.sockets[0].getsockname()[1] for server in (first, second)]
        assert len(set(ports)) == 2 and first.sockets[0].getsockname()[0] == node.address
        with pytest.raises(OSError, match="already in use") as taken:
            await listen(loop, node, ports[0])
        assert taken.value.errno == errno.EADDRINUSE
        await listen(loop, loop.boot("other"), ports[0])
        first.close()
        assert first.sockets == ()
        await listen(loop, node, ports[0])
        with pytest.raises(OSError, match="cannot assign"):
            await listen(loop, node, 81, host="192.0.2.1")

    simulate(main)


def test_no_client_is_accepted_before_start_serving_and_after_close() -> None:
    async def main(loop):
        node = loop.boot("server")
        server = await listen(loop, node, start_serving=False)
        assert not server.is_serving()
        with pytest.raises(ConnectionRefusedError):
            await loop.create_connection(Recorder, node.address, 80)
        await server.start_serving()
        transport, _ = await loop.create_connection(Recorder, node.address, 80)
        server.close()
        with pytest.raises(ConnectionRefusedError):
            await loop.create_connection(Recorder, node.address, 80)
        assert not transport.is_closing(), "closing the listener leaves its connections"
        waiting = loop.create_task(server.wait_closed())
        await asyncio.sleep(1)
        assert not waiting.done()
        transport.close()
        await waiting

    simulate(main)


def test_an_unknown_host_and_a_port_without_a_listener_are_errors_of_the_kernel() -> None:
    async def main(loop):
        with pytest.raises(OSError, match="no such host"):
            await loop.create_connection(Recorder, "192.0.2.1", 80)
        with pytest.raises(ConnectionRefusedError, match="Connect call failed"):
            await loop.create_connection(Recorder, "127.0.0.1", 80)

    simulate(main)


def test_localhost_is_the_nodes_own_host() -> None:
    async def main(loop):
        first, second = loop.boot("first"), loop.boot("second")
        await listen(loop, first, host="127.0.0.1")

        async def connect():
            await loop.create_connection(Recorder, "localhost", 80)

        await loop.create_task_on(first, connect())
        with pytest.raises(ConnectionRefusedError):
            await loop.create_task_on(second, connect())

    simulate(main)


def test_a_paused_server_shakes_hands_and_takes_the_connection_later() -> None:
    async def main(loop):
        node = loop.boot("server")
        await listen(loop, node)
        loop.pause(node)
        transport, _ = await loop.create_connection(Recorder, node.address, 80)
        transport.write(b"hello")
        await asyncio.sleep(5)
        (connection,) = loop.network.connections("server")
        assert connection.server.get_write_buffer_size() == 0
        loop.resume(node)
        await asyncio.sleep(1)
        return connection.server.get_protocol().data

    assert simulate(main) == b"hello"


def test_a_full_backlog_makes_the_next_one_try_again() -> None:
    async def main(loop):
        node = loop.boot("server")
        await listen(loop, node, backlog=2)
        loop.pause(node)
        attempts = [loop.create_task(loop.create_connection(Recorder, node.address, 80)) for _ in range(5)]
        done, waiting = await asyncio.wait(attempts, timeout=2.5)
        assert len(done) == 3
        loop.resume(node)
        await asyncio.gather(*waiting)

    simulate(main)


def test_a_cancelled_attempt_leaves_no_connection() -> None:
    """Whenever it is cancelled: before, while, or after the kernels have shaken hands."""

    def run(seed):
        async def main(loop):
            node = loop.boot("server")
            await listen(loop, node)
            attempt = loop.create_task(loop.create_connection(Recorder, node.address, 80))
            await asyncio.sleep(seed * 1e-5)
            attempt.cancel()
            await asyncio.wait([attempt])
            if not attempt.cancelled():
                attempt.result()[0].close()
            await asyncio.sleep(10)
            assert loop.network.connections() == []
            return attempt.cancelled()

        return simulate(main, seed)

    assert {run(seed) for seed in range(300)} == {True, False}


def test_closing_a_server_resets_connections_not_accepted_yet() -> None:
    async def main(loop):
        node = loop.boot("server")
        server = await listen(loop, node)
        loop.pause(node)
        _, client = await loop.create_connection(Recorder, node.address, 80)
        server.close()
        await client.gone.wait()
        assert isinstance(client.error, ConnectionResetError)
        loop.resume(node)
        await asyncio.sleep(1)

    simulate(main)


def test_a_server_that_is_cancelled_in_serve_forever_closes() -> None:
    async def main(loop):
        server = await listen(loop, loop.boot("server"))
        serving = loop.create_task(server.serve_forever())
        await asyncio.sleep(1)
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        assert not server.is_serving()

    simulate(main)


def test_a_factory_that_fails_costs_its_connection_only() -> None:
    async def main(loop):
        node = loop.boot("server")

        def fail():
            raise ValueError("no protocol today")

        async def serve():
            await loop.create_server(fail, "0.0.0.0", 80)

        await loop.create_task_on(node, serve())
        _, client = await loop.create_connection(Recorder, node.address, 80)
        await client.gone.wait()
        assert "creation for incoming connection" in loop.problems.pop().message
        with pytest.raises(ValueError, match="today"):
            await loop.create_connection(fail, node.address, 80)
        await asyncio.sleep(1)
        loop.problems.clear()

    simulate(main)


def test_the_network_lists_connections_by_their_ends() -> None:
    async def main(loop):
        await pair(loop)
        network = loop.network
        assert len(network.connections()) == len(network.connections("client")) == 1
        assert len(network.connections("server", "client")) == 1
        assert network.connections("server", "world") == []

    simulate(main)
