"""Every fault of the network: what both ends see, and that it is counted."""

from __future__ import annotations

import asyncio

import pytest

from dlog.testing.network.links import RESENT_AFTER_S_MAX
from dlog.testing.network.pipes import RESENT_FOR_S
from tests.helpers.simulation.loop import Echo, Recorder, pair, simulate

LONG_S = 2 * RESENT_AFTER_S_MAX


def counts(loop) -> dict[str, int]:
    return {kind: count for kind, count in loop.trace.counts.items() if kind.startswith("fault.")}


def test_a_reset_ends_both_sides_with_an_error_and_may_lose_what_was_on_its_way() -> None:
    lengths = set()

    def run(seed):
        async def main(loop):
            _, _, server, client = await pair(loop)
            for number in range(10):
                client.transport.write(bytes([number]))
                await asyncio.sleep(1e-5)
            (connection,) = loop.network.connections()
            loop.network.reset(connection)
            await server.gone.wait()
            await client.gone.wait()
            assert isinstance(server.error, ConnectionResetError)
            assert isinstance(client.error, ConnectionResetError)
            assert server.data == bytes(range(len(server.data))), "what arrives is a prefix"
            assert loop.network.connections() == []
            assert counts(loop) == {"fault.reset": 1}
            lengths.add(len(server.data))

        simulate(main, seed)

    for seed in range(50):
        run(seed)
    assert len(lengths) > 5


def test_a_stalled_connection_delivers_later_and_others_are_not_held_up() -> None:
    async def main(loop):
        _, there, server, client = await pair(loop)
        (stalled,) = loop.network.connections()
        loop.network.stall(stalled, 5)

        async def connect():
            return await loop.create_connection(Recorder, loop.node_named("server").address, 80)

        _, other = await loop.create_task_on(there, connect())
        client.transport.write(b"late")
        other.transport.write(b"on time")
        await asyncio.sleep(4.9)
        assert server.data == b""
        assert loop.network.connections()[1].server.get_protocol().data == b"on time"
        await asyncio.sleep(0.2)
        assert server.data == b"late"
        assert counts(loop) == {"fault.stall": 1}

    simulate(main)


def test_neither_end_of_a_half_open_connection_is_notified() -> None:
    async def main(loop):
        _, _, server, client = await pair(loop, Echo)
        (connection,) = loop.network.connections()
        loop.network.half_open(connection)
        client.transport.write(b"x" * 3_000_000)
        await asyncio.sleep(LONG_S)
        assert server.events == ["made"] and client.events == ["made", "pause"]
        server.transport.abort()
        await asyncio.sleep(LONG_S)
        assert client.events == ["made", "pause"]
        client.transport.abort()
        await asyncio.sleep(1)
        assert client.events[-1] == "lost" and loop.network.connections() == []
        assert counts(loop) == {"fault.half_open": 1}

    simulate(main)


def test_sending_in_vain_for_a_quarter_of_an_hour_ends_with_a_timeout_of_the_kernel() -> None:
    async def main(loop):
        _, _, server, client = await pair(loop)
        (connection,) = loop.network.connections()
        client.transport.write(b"heard")
        loop.network.cut("client", "server")
        await asyncio.sleep(RESENT_FOR_S / 2)
        loop.network.heal("client", "server")
        await asyncio.sleep(LONG_S)
        assert server.data == b"heard"
        loop.network.half_open(connection)
        client.transport.write(b"unheard")
        await asyncio.sleep(RESENT_FOR_S - 1)
        assert client.events == ["made"]
        await asyncio.sleep(2)
        assert client.events == ["made", "lost"] and isinstance(client.error, TimeoutError)
        assert server.events == ["made", "data"], "who sends nothing is never told"

    simulate(main)


def test_a_cut_keeps_bytes_until_it_is_healed() -> None:
    async def main(loop):
        _, _, server, client = await pair(loop, Echo)
        client.transport.write(b"before ")
        await asyncio.sleep(1)
        loop.network.cut("client", "server")
        loop.network.cut("server", "client")
        client.transport.write(b"during ")
        await asyncio.sleep(LONG_S)
        assert server.data == client.data == b"before "
        client.transport.write(b"and after")
        loop.network.heal("client", "server")
        await asyncio.sleep(LONG_S)
        assert server.data == client.data == b"before during and after"
        assert counts(loop) == {"fault.cut": 1}

    for seed in range(10):
        simulate(main, seed)


def test_after_a_long_cut_an_old_connection_may_need_long_and_a_new_one_does_not() -> None:
    """TCP backs off: whoever only waits for an old connection waits for minutes."""

    def run(seed):
        async def main(loop):
            there, here, server, client = await pair(loop)
            loop.network.cut("client", "server")
            client.transport.write(b"x")
            await asyncio.sleep(60)
            loop.network.heal_all()
            healed = loop.time()

            async def connect():
                await loop.create_connection(Recorder, there.address, 80)

            await loop.create_task_on(here, connect())
            assert loop.time() - healed < 1
            while not server.data:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            return loop.time() - healed

        return simulate(main, seed)

    waits = [run(seed) for seed in range(20)]
    assert max(waits) > 30 and min(waits) < 15


def test_a_one_way_cut_lets_the_other_way_pass_until_acknowledgements_are_missing() -> None:
    async def main(loop):
        _, _, server, client = await pair(loop)
        loop.network.cut("server", "client", one_way=True)
        server.transport.write(b"never seen while cut")
        client.transport.write(b"x" * 3_000_000)
        await asyncio.sleep(10)
        assert client.data == b""
        assert 0 < len(server.data) <= 2**20
        loop.network.heal("server", "client", one_way=True)
        await asyncio.sleep(LONG_S)
        assert client.data == b"never seen while cut"
        assert len(server.data) == 3_000_000
        assert counts(loop) == {"fault.cut_one_way": 1}

    for seed in range(10):
        simulate(main, seed)


def test_a_peer_that_gave_up_during_a_cut_answers_later_bytes_with_a_reset() -> None:
    async def main(loop):
        _, _, server, client = await pair(loop)
        loop.network.cut("client", "server")
        server.transport.write(b"x")
        client.transport.abort()
        await asyncio.sleep(10)
        assert server.events == ["made"]
        loop.network.heal("client", "server")
        await asyncio.sleep(LONG_S)
        assert server.events[-1] == "lost"

    for seed in range(10):
        simulate(main, seed)


@pytest.mark.parametrize("cut", [("client", "server"), ("server", "client")])
def test_connecting_over_a_cut_waits_for_its_end_and_then_for_the_kernels_next_try(cut) -> None:
    async def main(loop):
        there, here, _, _ = await pair(loop)
        loop.network.cut(*cut, one_way=True)

        async def connect():
            return await loop.create_connection(Recorder, there.address, 80)

        attempt = loop.create_task_on(here, connect())
        await asyncio.sleep(10)
        assert not attempt.done()
        loop.network.heal(*cut, one_way=True)
        await asyncio.wait_for(attempt, 10)
        loop.network.cut(*cut, one_way=True)
        with pytest.raises(TimeoutError):
            await loop.create_task_on(here, connect())

    simulate(main)


def test_a_clogged_link_lets_everything_through_when_it_ends() -> None:
    async def main(loop):
        _, _, server, client = await pair(loop)
        loop.network.clog("client", "server", 3)
        for number in range(30):
            client.transport.write(bytes([number]))
            await asyncio.sleep(0.05)
        server.transport.write(b"the other way passes")
        await asyncio.sleep(1.4)
        assert server.data == b"" and client.data == b"the other way passes"
        await asyncio.sleep(0.3)
        assert server.data == bytes(range(30)) and server.chunks < 10
        assert counts(loop) == {"fault.clog": 1}

    simulate(main)


def test_a_clogged_loopback_holds_both_directions() -> None:
    async def main(loop):
        with loop.in_node(loop.boot("p")):
            await loop.create_server(Echo, "127.0.0.1", 80)
            transport, protocol = await loop.create_connection(Recorder, "127.0.0.1", 80)
        loop.network.clog("p", "p", 3)
        loop.network.cut("p", "p")  # which no host can be from itself
        transport.write(b"x")
        await asyncio.sleep(2.9)
        assert protocol.data == b""
        await asyncio.sleep(0.2)
        assert protocol.data == b"x" and counts(loop) == {"fault.clog": 1}

    simulate(main)


def test_a_node_that_refuses_takes_no_new_connection_and_keeps_the_old() -> None:
    async def main(loop):
        there, here, server, client = await pair(loop)

        async def connect():
            return await loop.create_connection(Recorder, there.address, 80)

        loop.network.refuse("server")
        with pytest.raises(ConnectionRefusedError):
            await loop.create_task_on(here, connect())
        client.transport.write(b"still here")
        loop.network.refuse("server", False)
        await loop.create_task_on(here, connect())
        assert server.data == b"still here"
        assert counts(loop) == {"fault.refuse": 1}

    simulate(main)


def reaches(loop, source: str, target: str) -> bool:
    network = loop.network
    return all(network.link(*pair).cut_since is None for pair in ((source, target), (target, source)))


def test_an_isolated_node_reaches_itself_only() -> None:
    async def main(loop):
        for name in "abc":
            loop.boot(name)
        loop.network.isolate("a")
        assert [pair for pair in ("ab", "ac", "bc", "aa") if reaches(loop, *pair)] == ["bc", "aa"]
        assert not reaches(loop, "a", "world")
        loop.network.heal_all()
        assert reaches(loop, "a", "b") and reaches(loop, "a", "world")
        assert counts(loop) == {"fault.isolate": 1}

    simulate(main)


def test_a_split_cuts_between_groups_and_not_within() -> None:
    async def main(loop):
        for name in "abcd":
            loop.boot(name)
        loop.network.split(["ab", "c"])
        assert [pair for pair in ("ab", "ac", "bc", "ad", "cd") if reaches(loop, *pair)] == ["ab", "ad", "cd"]
        assert counts(loop) == {"fault.split": 1}

    simulate(main)


def test_the_peers_of_a_killed_process_are_notified_by_its_kernel() -> None:
    """By an end of stream, or by a reset if it had not read everything; what was sent still arrives."""

    def run(seed):
        async def main(loop):
            there, _, server, client = await pair(loop)
            server.transport.write(b"sent before")
            if seed % 2:
                server.transport.pause_reading()
                client.transport.write(b"unread")
                await asyncio.sleep(1)
            loop.kill(there)
            await client.gone.wait()
            await asyncio.sleep(1)
            assert server.events == ["made"], "the dead hear nothing"
            assert loop.network.connections() == []
            with pytest.raises(ConnectionRefusedError):
                await loop.create_connection(Recorder, there.address, 80)
            assert client.data == b"sent before"
            return type(client.error)

        return simulate(main, seed)

    assert [run(seed) for seed in range(4)] == [type(None), ConnectionResetError] * 2


def test_the_peers_of_a_lost_host_hear_nothing_until_it_is_back() -> None:
    async def main(loop):
        there, here, _, client = await pair(loop)
        loop.kill(there, host_too=True)
        client.transport.write(b"x")

        async def connect():
            return await loop.create_connection(Recorder, there.address, 80)

        attempt = loop.create_task_on(here, connect())
        await asyncio.sleep(50)
        assert client.events == ["made"] and not attempt.done()
        loop.boot("server")
        with pytest.raises(ConnectionRefusedError):
            await attempt
        await asyncio.sleep(LONG_S)
        assert isinstance(client.error, ConnectionResetError)
        assert loop.network.connections() == []
        assert counts(loop) == {"fault.power_off": 1}

    for seed in range(10):
        simulate(main, seed)


def test_a_peer_that_sends_nothing_to_a_restarted_host_learns_nothing_until_it_does() -> None:
    async def main(loop):
        there, _, _, client = await pair(loop)
        loop.kill(there, host_too=True)
        loop.boot("server")
        await asyncio.sleep(LONG_S)
        assert client.events == ["made"]
        client.transport.write(b"x")
        await client.gone.wait()
        assert isinstance(client.error, ConnectionResetError)

    simulate(main)


def test_what_is_sent_to_a_paused_node_queues_up_to_the_window() -> None:
    async def main(loop):
        there, _, server, client = await pair(loop)
        loop.pause(there)
        client.transport.write(b"x" * 3_000_000)
        await asyncio.sleep(100)
        assert server.data == b"" and client.events == ["made", "pause"]
        loop.resume(there)
        await asyncio.sleep(10)
        assert len(server.data) == 3_000_000 and client.events == ["made", "pause", "resume"]

    simulate(main)


def test_closing_while_bytes_wait_for_a_dead_peer_ends_all_the_same() -> None:
    async def main(loop):
        there, _, server, client = await pair(loop)
        server.transport.pause_reading()
        client.transport.write(b"x" * 3_000_000)
        await asyncio.sleep(1)
        client.transport.close()
        loop.kill(there)
        await client.gone.wait()
        assert isinstance(client.error, ConnectionResetError)

    simulate(main)
