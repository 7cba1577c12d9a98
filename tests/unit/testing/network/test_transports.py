"""Connections without faults: what asyncio's transports promise."""

from __future__ import annotations

import asyncio

import pytest

from tests.helpers.simulation.loop import BufferedRecorder, Echo, Recorder, pair, simulate


def test_what_is_written_arrives_once_and_in_order_however_it_is_cut() -> None:
    cuts = set()

    def run(seed):
        async def main(loop):
            _, _, server, client = await pair(loop)
            sent = b""
            for number in range(200):
                piece = bytes([number]) * (number % 7 * 50 + 1)
                client.transport.write(piece)
                sent += piece
                if number % 3 == 0:
                    await asyncio.sleep(0.0001)
            await asyncio.sleep(60)
            assert server.data == sent
            return server.chunks

        return simulate(main, seed)

    for seed in range(20):
        cuts.add(run(seed))
    assert len(cuts) > 10, "chunks should begin and end at places that differ"


def test_both_ends_know_the_addresses() -> None:
    async def main(loop):
        there, here, server, client = await pair(loop)
        mine, peer = (client.transport.get_extra_info(name) for name in ("sockname", "peername"))
        assert peer == (there.address, 80) and mine[0] == here.address
        assert server.transport.get_extra_info("peername") == mine
        assert client.transport.get_extra_info("socket").getpeername() == peer
        assert client.transport.get_extra_info("cipher", "none") == "none"

    simulate(main)


def test_callbacks_run_on_the_node_of_their_end() -> None:
    async def main(loop):
        class Here(Recorder):
            def data_received(self, data):
                self.where = loop.node.name

        _, _, server, client = await pair(loop, Here, Here)
        client.transport.write(b"x")
        server.transport.write(b"x")
        await asyncio.sleep(1)
        return server.where, client.where

    assert simulate(main) == ("server", "client")


def test_closing_sends_what_was_written_and_ends_both_sides_without_an_error() -> None:
    async def main(loop):
        _, _, server, client = await pair(loop)
        client.transport.write(b"last words" * 100_000)
        client.transport.close()
        assert client.transport.is_closing()
        client.transport.close()
        await server.gone.wait()
        assert server.data == b"last words" * 100_000
        assert server.events[-2:] == ["eof", "lost"] and server.error is None
        assert client.events[-1] == "lost" and client.error is None
        client.transport.write(b"ignored")
        assert loop.network.connections() == []

    simulate(main)


def test_write_eof_leaves_the_other_direction_open() -> None:
    class AnswerAtEnd(Recorder):
        def eof_received(self):
            self.transport.write(b"got " + self.data)
            self.transport.close()
            return True

    async def main(loop):
        _, _, _, client = await pair(loop, AnswerAtEnd)
        client.transport.write(b"question")
        client.transport.write_eof()
        with pytest.raises(RuntimeError, match="write_eof"):
            client.transport.write(b"more")
        await client.gone.wait()
        return client.data

    assert simulate(main) == b"got question"


def test_a_buffered_protocol_reads_into_its_own_buffer() -> None:
    async def main(loop):
        _, _, server, client = await pair(loop, lambda: BufferedRecorder(64))
        client.transport.write(bytes(range(256)) * 20)
        client.transport.close()
        await server.gone.wait()
        return server.data

    for seed in range(5):
        assert simulate(main, seed) == bytes(range(256)) * 20


def test_a_reader_that_pauses_holds_the_writer_back_and_loses_nothing() -> None:
    async def main(loop):
        _, _, server, client = await pair(loop)
        transport = client.transport
        transport.set_write_buffer_limits(high=1000, low=10)
        assert transport.get_write_buffer_limits() == (10, 1000)
        server.transport.pause_reading()
        assert not server.transport.is_reading()
        transport.write(b"a" * 3_000_000)
        await asyncio.sleep(10)
        assert client.events == ["made", "pause"] and server.data == b""
        assert 3_000_000 - 2**20 <= transport.get_write_buffer_size() < 3_000_000
        server.transport.resume_reading()
        await asyncio.sleep(10)
        assert server.data == b"a" * 3_000_000
        assert client.events == ["made", "pause", "resume"]
        assert transport.get_write_buffer_size() == 0

    for seed in range(5):
        simulate(main, seed)


def test_aborting_drops_what_the_kernel_has_not_taken() -> None:
    async def main(loop):
        _, _, server, client = await pair(loop)
        server.transport.pause_reading()
        client.transport.write(b"a" * 3_000_000)
        client.transport.abort()
        await asyncio.sleep(1)
        server.transport.resume_reading()
        await server.gone.wait()
        assert 0 < len(server.data) <= 2**20
        assert client.events[-1] == "lost" and client.error is None

    simulate(main)


def test_closing_with_unread_bytes_resets_the_peer() -> None:
    """As Linux does; whoever closes too early takes the peer's last answers away."""

    async def main(loop):
        _, _, server, client = await pair(loop)
        server.transport.pause_reading()
        client.transport.write(b"never read")
        await asyncio.sleep(1)
        server.transport.close()
        await client.gone.wait()
        assert isinstance(client.error, ConnectionResetError)

    simulate(main)


def test_bytes_for_a_closed_socket_are_answered_by_a_reset() -> None:
    class KeepOpen(Recorder):
        def eof_received(self):
            super().eof_received()
            return True

    async def main(loop):
        _, _, server, client = await pair(loop, Recorder, KeepOpen)
        server.transport.close()
        await asyncio.sleep(1)
        assert client.events == ["made", "eof"]
        client.transport.write(b"anybody there?")
        await client.gone.wait()
        assert isinstance(client.error, ConnectionResetError)

    simulate(main)


@pytest.mark.parametrize("method", ["data_received", "eof_received"])
def test_a_protocol_that_raises_loses_its_connection_and_fails_the_run(method) -> None:
    class Broken(Recorder):
        pass

    def fail(self, *arguments):
        raise ValueError("broken protocol")

    setattr(Broken, method, fail)

    async def main(loop):
        _, _, server, client = await pair(loop, Broken)
        client.transport.write(b"x")
        client.transport.write_eof()
        await server.gone.wait()
        assert isinstance(server.error, ValueError)
        assert isinstance(loop.problems.pop().error, ValueError)

    simulate(main)


def test_what_is_no_bytes_is_refused() -> None:
    async def main(loop):
        _, _, server, client = await pair(loop)
        with pytest.raises(TypeError, match="bytes-like"):
            client.transport.write("text")
        client.transport.write(b"")
        client.transport.writelines([b"a", bytearray(b"b"), memoryview(b"c")])
        await asyncio.sleep(1)
        return server.data

    assert simulate(main) == b"abc"


def test_bytes_of_a_buffer_that_changes_later_are_those_of_the_moment_of_the_write() -> None:
    async def main(loop):
        _, _, server, client = await pair(loop)
        buffer = bytearray(b"then")
        client.transport.write(buffer)
        buffer[:] = b"now!"
        await asyncio.sleep(1)
        return server.data

    assert simulate(main) == b"then"


def test_streams_work() -> None:
    async def main(loop):
        there = loop.boot("server")

        async def answer(reader, writer):
            while line := await reader.readline():
                writer.write(line.upper())
                await writer.drain()
            writer.close()

        async def serve():
            return await asyncio.start_server(answer, "0.0.0.0", 7)

        server = await loop.create_task_on(there, serve())
        reader, writer = await asyncio.open_connection(there.address, 7)
        writer.write(b"one\ntwo\n")
        writer.write_eof()
        text = await reader.read()
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()
        return text

    assert simulate(main) == b"ONE\nTWO\n"


def test_an_echo_comes_back_after_the_time_of_two_delays() -> None:
    async def main(loop):
        _, _, _, client = await pair(loop, Echo)
        began = loop.time()
        client.transport.write(b"x")
        while not client.data:  # noqa: ASYNC110
            await asyncio.sleep(1e-5)
        return loop.time() - began

    times = [simulate(main, seed) for seed in range(50)]
    assert all(5e-5 < time < 0.6 for time in times)
    assert len(set(times)) == 50


def test_the_timeline_shows_each_send_if_asked() -> None:
    async def main(loop):
        loop.trace.with_events = loop.trace.detailed = True
        _, _, _, client = await pair(loop)
        client.transport.write(b"twelve bytes")
        await asyncio.sleep(1)
        return [line.split(maxsplit=3)[1:] for line in loop.trace.timeline().splitlines()]

    timeline = simulate(main)
    for line in (
        ["client", "connected", "connection 1 of client to server"],
        ["client", "sent", "12 bytes on connection 1 of client to server"],
    ):
        assert line in timeline
    assert any(line[:2] == ["server", "received"] for line in timeline)
