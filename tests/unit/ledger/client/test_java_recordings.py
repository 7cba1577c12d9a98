"""Our client in the place of Java's: the same frames to the same bookies, the same metadata, or the reason why not.

Recorded from Apache BookKeeper 4.18.0 (tests/vectors/README.md). Transaction ids are free, and so is which replica
is asked for an entry.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import pytest

from ledger.config import Visibility
from ledger.errors import LedgerFencedError
from ledger.metadata.format.ledger import encode_ledger_metadata
from ledger.model import LedgerMetadata, LedgerState, QuorumSizes
from tests.helpers.ledger.recorded_cluster import (
    Scene,
    another_client,
    opened,
    recording,
    scene_of,
    words_of,
)
from tests.helpers.ledger.scripted_bookies import until as eventually
from tests.helpers.wire.recorded_conversations import java_conversations

Script = Callable[[Scene], Awaitable[None]]


async def write(scene: Scene, payloads: list[bytes], quorum: QuorumSizes) -> None:
    """Create, and add one after another."""
    custom = scene.recording.values[0].custom
    handle = await scene.client.create(quorum, visibility=Visibility.FAST, custom=custom)
    for payload in payloads:
        await handle.add(payload)


async def write_three(scene: Scene) -> None:
    await write(scene, scene.recording.payloads, QuorumSizes(ensemble=3, write=3, ack=2))


async def recover_and_read(scene: Scene) -> None:
    handle = await scene.client.open_with_recovery(scene.ledger_id)
    for entry_id in range(handle.last_readable + 1):
        await handle.read(entry_id, entry_id)


async def recover(scene: Scene) -> None:
    await scene.client.open_with_recovery(scene.ledger_id)


async def look(scene: Scene) -> None:
    await scene.client.open(scene.ledger_id)


async def fenced_while_writing(scene: Scene) -> None:
    """Another client recovers; the next add is refused, and the close finds the equal result."""
    *payloads, last = scene.recording.payloads
    handle = await scene.client.create(QuorumSizes(), visibility=Visibility.FAST)
    for payload in payloads:
        await handle.add(payload)
    async with another_client(scene) as other:
        await other.open_with_recovery(scene.ledger_id)
    with pytest.raises(LedgerFencedError):
        await handle.add(last)


async def tail(scene: Scene) -> None:
    """Adds while another client waits for what is confirmed; then it waits until the ledger is closed."""
    quorum = QuorumSizes(ensemble=3, write=2, ack=2)
    handle = await scene.client.create(quorum, visibility=Visibility.FAST)
    first, *rest = scene.recording.payloads
    await handle.add(first)
    async with another_client(scene) as other:
        reader = await other.open(scene.ledger_id)
        for claims, payloads in ((1, rest), (2, [])):
            for bookie in scene.bookies.values():
                bookie.mute = lambda what: what == "read_entry"
            known = reader.last_readable
            waiting = asyncio.ensure_future(reader.wait_for_lac(known, 3.0))
            await asyncio.sleep(0.05)
            for payload in payloads:
                await handle.add(payload)
            if not payloads:
                await handle.close()
            for bookie in scene.bookies.values():
                bookie.claims = claims
                bookie.speak()
            await waiting
            if payloads:
                await reader.read(0, 1)


async def look_and_read(scene: Scene) -> None:
    handle = await scene.client.open(scene.ledger_id)
    await handle.refresh()
    for entry_id in range(handle.last_readable + 1):
        await handle.read(entry_id, entry_id)


async def go_on_without_one(scene: Scene) -> None:
    """A bookie dies with an add on its way to it."""
    created, changed = scene.recording.values
    handle = await scene.client.create(created.quorum, visibility=Visibility.FAST)
    (name,) = set(handle.metadata.last_fragment.ensemble) - set(changed.last_fragment.ensemble)
    dying = scene.bookies[name]
    # With an ack quorum of all three the entry that the dead one lacks is sent again, else the change comes after it.
    cut = changed.last_fragment.first_entry - (created.quorum.ack < created.quorum.write)
    for number, payload in enumerate(scene.recording.payloads):
        if number == cut:
            dying.be_silent()
            adding = asyncio.ensure_future(handle.add(payload))
            await eventually(lambda: handle.last_add_pushed == cut and f"add {cut}" in words_of(dying))
            if created.quorum.ack < created.quorum.write:
                await adding
            dying.go_away()
            await adding
            await eventually(lambda: len(handle.metadata.fragments) == 2)
        else:
            await handle.add(payload)


async def publish_lac(scene: Scene) -> None:
    quorum, custom = QuorumSizes(ensemble=1, write=1, ack=1), scene.recording.values[0].custom
    handle = await scene.client.create(quorum, visibility=Visibility.FAST, custom=custom)
    for payload in scene.recording.payloads:
        await handle.add(payload)
    handle.tick(asyncio.get_running_loop().time())
    await eventually(lambda: handle.visible == handle.lac)


async def sync_when_asked(scene: Scene) -> None:
    """Three adds, a force, one more add, and a close that does not force."""
    handle = await scene.client.create_deferred(scene.recording.values[0].quorum)
    *first, last = scene.recording.payloads
    for payload in first:
        await handle.add(payload)
    await handle.force()
    await handle.add(last)
    await handle.close()


SCRIPTS: dict[str, Script] = {
    "java_v3_write_E3": write_three,
    "java_v3_open_with_recovery_E3": recover_and_read,
    "java_v2_open_with_recovery_E3": recover_and_read,
    "java_v3_recovery_of_empty_ledger": recover,
    "java_v3_recovery_striped": recover,
    "java_v3_open_without_recovery_empty": look,
    "java_v2_open_without_recovery_empty": look,
    "java_v3_fenced_writer": fenced_while_writing,
    "java_v3_long_poll_tail": tail,
    "java_v3_lac_calls": look_and_read,
    "java_v2_lac_calls": look_and_read,
    "java_v3_ensemble_change": go_on_without_one,
    "java_v2_ensemble_change_resend": go_on_without_one,
    "java_v2_explicit_lac": publish_lac,
    "java_v3_deferred_sync_and_force": sync_when_asked,
}


@dataclass(frozen=True)
class Difference:
    """Kinds of frames that only one of the clients sends, and why that is legal."""

    reason: str
    more: frozenset[str] = frozenset()
    less: frozenset[str] = frozenset()
    closed_length: int | None = None
    """Where only the length in the last value differs: ours."""


DIFFERENCES = {
    **{
        f"java_{wire}_open_with_recovery_E3": Difference(
            "Ours has kept the last entry from recovery and does not read it again.",
            less=frozenset({"read 2"}),
        )
        for wire in ("v2", "v3")
    },
    "java_v3_deferred_sync_and_force": Difference(
        "Java counts the entry after the force into the closed ledger's length although it cuts it off; ours does "
        "not, and takes either from others: a recovery would write what ours writes.",
        closed_length=21,
    ),
    "java_v2_open_without_recovery_empty": Difference(
        "Java's v2 client looks at the last entry's header and so misses an explicit LAC; ours asks for both, in "
        "version 3.",
        more=frozenset({*(f"127.0.0.1:{port} read_lac" for port in (3181, 3182, 3183)), "read -1"}),
        less=frozenset({"read -1"}),
    ),
    "java_v3_open_without_recovery_empty": Difference(
        "READ_LAC says ENOENTRY of an empty ledger and of a last entry that cannot be read; Java's client takes both "
        "for an empty ledger, ours asks for the last entry.",
        more=frozenset({"read -1"}),
    ),
    "java_v3_long_poll_tail": Difference(
        "What a long poll's answer says of the LAC is no proof, so that bookie is asked for one; and as one bookie "
        "may be out of date, two are asked at a time. The ledger is empty when it is opened.",
        more=frozenset(
            {
                "127.0.0.1:3183 read_lac",
                "read -1",
                "long poll above -1",
                "read 0",
            }
        ),
    ),
    "java_v3_lac_calls": Difference(
        "The script reads an entry that is not there and asks with three calls for what one call answers.",
        less=frozenset({"read -1", "read 50", "127.0.0.1:3181 read_lac"}),
    ),
    "java_v2_lac_calls": Difference(
        "As for version 3; and Java's v2 client reads the last entry where ours asks for the LAC.",
        more=frozenset({"127.0.0.1:3181 read_lac"}),
        less=frozenset({"read -1", "read 50"}),
    ),
    "java_v3_ensemble_change": Difference(
        "A replacement is asked for an entry that nobody has before it is relied on: a hung bookie connects, too.",
        more=frozenset({f"read {2**63 - 1}"}),
    ),
    "java_v2_ensemble_change_resend": Difference(
        "As for version 3; and the recording ends before the last add reached its third bookie.",
        more=frozenset({f"read {2**63 - 1}", "127.0.0.1:3181 add 8"}),
    ),
}

NOT_DONE = {
    "java_v3_adv_out_of_order": "our client chooses entry ids itself",
    "java_long_ledger_ids": "no bookie takes part: tests/interop/zookeeper/test_layouts.py compares the nodes",
    "java_delete": "no bookie takes part: tests/interop/zookeeper/test_layouts.py compares the nodes",
    "java_v3_rereplication": "our client does not copy ledgers; Apache's worker does so on our bookies, too",
}


def test_every_recording_is_played_or_said_not_to_be() -> None:
    assert {*SCRIPTS, *NOT_DONE} == set(java_conversations())
    assert set(DIFFERENCES) <= set(SCRIPTS)


@pytest.mark.parametrize("name", SCRIPTS)
async def test_our_client_sends_what_javas_sent(name: str) -> None:
    async with scene_of(name, before=ledger_before(name)) as scene:
        await SCRIPTS[name](scene)
        ours, javas = scene.sent(), scene.recording.sent()
        known = DIFFERENCES.get(name, Difference(""))
        assert (kinds(ours - javas), kinds(javas - ours)) == (known.more, known.less)
        values = scene.recording.values
        if known.closed_length is not None:
            assert values[-1].length != known.closed_length
            values = [*values[:-1], replace(values[-1], length=known.closed_length)]
        assert scene.written() == [encode_ledger_metadata(value) for value in values]


def kinds(frames: Counter[str]) -> frozenset[str]:
    return frozenset(frame.rsplit(" ", 1)[0] for frame in frames)


def ledger_before(name: str) -> LedgerMetadata | None:
    """The ledger as the recording found it; None if it creates it."""
    found = recording(name)
    if found.values:
        first = found.values[0]
        if first.state is LedgerState.OPEN:
            return None
        return opened(first.quorum, first.fragments[0].ensemble, first.custom)
    members = list(dict.fromkeys(step.bookie for step in found.steps))
    return opened(
        QuorumSizes(ensemble=len(members), write=len(members), ack=(len(members) + 1) // 2), members, ()
    )
