"""What a seed switches on. Each run has some features and some faults, and tiny limits: a swarm covers what no
single mixture would.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

from dlog.testing.bookies import KIB
from dlog.testing.kernel.seeds import Seeds
from dlog.testing.swarm.draw import Draw
from dlog.testing.swarm.narrow import narrowed
from dlog.testing.swarm.plan import (
    BEYOND,
    BEYOND_SCENES,
    CLOCKS,
    DISKS,
    LASTING,
    LATER_BEYOND,
    LOSSES,
    MISDIRECTED_READ,
    NETWORK,
    NO_DESCRIPTORS,
    OUTAGE,
    PROCESSES,
    SCENES,
    STORE,
    TIMELY,
    UNREADABLE,
    Plan,
)

QUORUMS = ((3, 3, 2), (3, 3, 2), (3, 2, 2), (4, 3, 2), (5, 3, 2), (3, 3, 3), (5, 5, 3), (2, 2, 1), (4, 4, 2))


def plan_of(seed: int, chance: Random, profile: str = "chaos", **overrides: Any) -> Plan:
    """The plan that this seed stands for; `overrides` replace single fields of it."""
    draw = Draw(chance)
    drawn = _basic(draw, profile)
    faults, ensemble = drawn["faults"], drawn["ensemble"]
    # Drawn last, so that what seeds drew before it existed stays.
    if profile != "calm":
        drawn["faults"] = (*faults, *(name for name in (TIMELY, UNREADABLE) if draw.maybe(0.3)))
    if profile == "scenes":
        drawn |= _with_scenes(draw, drawn["faults"])
    drawn["hold_s"] = chance.choice((60.0, 60.0, 6.0, 2.0))
    if profile in ("chaos", "scenes") and ensemble > drawn["write"] and draw.maybe(0.4):
        drawn |= _with_returning_bookies(ensemble, drawn["bookies"])
    if profile != "calm" and draw.maybe(0.2):
        drawn["faults"] = (*drawn["faults"], NO_DESCRIPTORS)
    drawn["neighbours"] = chance.choice((0, 0, 1))
    if profile != "calm":
        apart = Draw(Random(chance.getrandbits(64)))
        drawn |= _with_lasting_faults(apart, drawn)
        if profile == "beyond":
            drawn["faults"] = (*drawn["faults"], *(name for name in LATER_BEYOND if apart.maybe(0.3)))
    if profile == "beyond":
        drawn |= _with_a_scene_beyond(Draw(Random(f"scene beyond {seed}")))
    drawn |= _with_a_richer_workload(Draw(Random(f"workload {seed}")))
    if profile != "beyond":
        drawn |= _with_more_contention(Draw(Random(f"contention {seed}")), profile, drawn)
    if profile != "beyond":
        drawn |= _with_later_features(Draw(Random(f"later {seed}")))
        later = Draw(Random(f"producers {seed}"))
        drawn["producers"] = later.chance.choice((1, 2, 3)) if later.maybe(0.2) else 0
        later = Draw(Random(f"sinks {seed}"))
        drawn["sinks"] = later.chance.choice((1, 2, 3)) if later.maybe(0.2) else 0
        later = Draw(Random(f"repairers {seed}"))
        drawn["repairers"] = later.chance.choice((1, 2)) if later.maybe(0.2) else 0
        later = Draw(Random(f"operators {seed}"))
        if later.maybe(0.15):
            drawn["operators"] = later.chance.choice((1, 1, 2))
            drawn["bookies"] = max(drawn["bookies"], min(6, drawn["ensemble"] + 2))
        later = Draw(Random(f"inspectors {seed}"))
        drawn["inspectors"] = later.chance.choice((1, 1, 2)) if later.maybe(0.15) else 0
        later = Draw(Random(f"losses {seed}"))
        if later.maybe(0.3):
            drawn["loses"] = later.chance.choice(("ledger", "ledger", "ledger", *LOSSES))
    drawn["compaction"] = Draw(Random(f"compaction {seed}")).maybe(0.3)
    drawn["visitors"] = int(Draw(Random(f"visitors {seed}")).maybe(0.2))
    if profile == "narrow":
        drawn |= narrowed(Draw(Random(f"narrow {seed}")))
    if profile != "beyond":
        drawn |= _with_racks(Draw(Random(f"racks {seed}")), drawn)
    drawn["single_write_bytes_min"] = Random(f"single write {seed}").choice((0, 0, 1, 600))
    drawn["rebuilds"] = Draw(Random(f"rebuilds {seed}")).maybe(0.15)
    drawn["more_directories"] = Random(f"directories {seed}").choice((0, 0, 0, 1, 2))
    drawn["scrubs"] = Draw(Random(f"scrubbers {seed}")).maybe(0.3)
    if drawn["digest"] == "DUMMY" and (profile == "beyond" or "minor_rot" in drawn["faults"]):
        drawn["digest"] = "CRC32C"  # it promises nothing about bytes that rot
    return Plan(seed=seed, profile=profile, **(drawn | overrides))


def _basic(draw: Draw, profile: str) -> dict[str, Any]:
    """Cluster, workload and faults, each drawn by itself."""
    chance = draw.chance
    ensemble, write, ack = chance.choice(QUORUMS)
    spare = chance.choice((0, 0, 1, 2))
    faults = _faults(draw, profile)
    return {
        "bookies": min(6, max(3, ensemble) + spare),
        "ensemble": ensemble,
        "write": write,
        "ack": ack,
        "fast": draw.maybe(0.25),
        "degraded": draw.maybe(0.8),
        "digest": chance.choice(("CRC32C", "CRC32C", "CRC32", "HMAC", "DUMMY")),
        "password": chance.choice(("", "", "secret")),
        "writers": chance.choice((1, 2, 2, 3)),
        "readers": chance.choice((1, 2, 2, 3)),
        "append_every_s": chance.choice((0.02, 0.05, 0.1, 0.5)),
        "faults": tuple(faults),
        "payload_bytes_max": chance.choice((10, 500, 8000)),
        "batching": draw.maybe(0.7),
        "rotation_entries": chance.choice((5, 50, 500)),
        "rotation_bytes": chance.choice((20_000, 1 << 20)),
        "rotation_age_s": chance.choice((0.7, 3.0, 30.0)),
        "shrinks": draw.maybe(0.4),
        "other_log": draw.maybe(0.5),
        "small_disks": draw.maybe(0.5),
        "checkpoint_s": chance.choice((0.5, 3.0, 20.0)),
        "read_ahead_bytes": chance.choice((4 * KIB, 64 * KIB, 1024 * KIB)),
        "garbage": draw.maybe(0.1),
        "witnesses": chance.choice((0, 0, 1)),
        "sync_s_max": chance.choice((2e-3, 2e-3, 50e-3)),
        "patience": chance.choice((0.3, 1.0)),
        "gc_interval_s": chance.choice((0.7, 5.0)),
        **_pace(draw),
    }


def _with_a_scene_beyond(draw: Draw) -> dict[str, Any]:
    """Half of these runs have one schedule again and again, with time for each, and no other damage in the way.

    Most of them on three bookies, since a fourth one often has what the schedule takes away.
    """
    if draw.maybe(0.5):
        return {}
    three = {
        "bookies": 3,
        "ensemble": 3,
        "write": 3,
        "ack": 2,
        "payload_bytes_max": 10,
        "shrinks": False,
        "other_log": False,
        "copiers": 0,
    }
    return {
        **(three if draw.maybe(0.8) else {}),
        "faults": (draw.chance.choice(BEYOND_SCENES), *((TIMELY,) if draw.maybe(0.5) else ())),
        "chaos_s": 12.0,
        "fault_every_s": 4.0,
        "append_every_s": 0.2,
        "writers": 2,
        "checkpoint_s": 20.0,
        "fast": False,
    }


def _with_a_richer_workload(draw: Draw) -> dict[str, Any]:
    """What clients use in addition to the plain append, from a stream of its own."""
    chance = draw.chance
    return {
        "keys": draw.maybe(0.4),
        "more_ways": draw.maybe(0.5),
        "tight_buffer": draw.maybe(0.25),
        "tight_bookies": draw.maybe(0.3),
        "codec": chance.choice(("none", "none", "none", "zstd", "lz4")),
        "wire": chance.choice(("v2", "v2", "v2", "v3")),
        "huge_bytes": 1 << 20 if draw.maybe(0.04) else 0,
    }


def _with_more_contention(draw: Draw, profile: str, drawn: dict[str, Any]) -> dict[str, Any]:
    """Few runs have any of it, so that most are as they were before it existed. Drawn from a stream of its own."""
    chance = draw.chance
    changed: dict[str, Any] = {}
    rivals, parallel, slow = draw.maybe(0.08), draw.maybe(0.08), draw.maybe(0.06)
    graces, outage = draw.maybe(0.08), draw.maybe(0.08)
    if rivals:
        changed |= {"rivals": True, "writers": 3, "term_s": 0.7}
    if parallel:
        changed["parallel_logs"] = chance.choice((2, 5))
    if slow:
        changed |= {"store_s_max": chance.choice((0.2, 0.5)), "rotation_entries": 5, "rotation_age_s": 0.7}
    if profile == "calm":
        return changed
    faults: tuple[str, ...] = ()
    if graces:  # shorter than writers sleep
        changed |= {
            "graces_s": chance.choice(((0.3,), (1.0,), (3.0, 0.5))),
            "writers": max(2, drawn["writers"]),
        }
        changed["shrinks"] = True
        faults += ("pause_client",)
    if outage:
        changed |= {"hold_s": 2.0, "tight_buffer": True, "more_ways": True}
        faults += (OUTAGE,)
    changed["faults"] = tuple(dict.fromkeys((*drawn["faults"], *faults)))
    return changed


def _with_later_features(draw: Draw) -> dict[str, Any]:
    """What came after the others, from a stream of its own, so that most runs are as they were."""
    consumers = draw.chance.choice((2, 3)) if draw.maybe(0.2) else 0
    short_lists = draw.maybe(0.3)
    return {
        "consumers": consumers,
        "short_lists": short_lists,
        "polite": 0.5 if draw.maybe(0.3) else 0.0,
        "retains": draw.maybe(0.25),
    }


def _with_racks(draw: Draw, drawn: dict[str, Any]) -> dict[str, Any]:
    """Three racks, so that two are left without one of the bookies; few runs have them.

    They are enforced only where bookies return: those that are left for good might share a rack.
    """
    if not draw.maybe(0.1):
        return {}
    for_good = {"lost_bookie", "minor_rot", "leave_bookie"} & {*drawn["faults"]} or drawn.get("operators")
    return {"racks": 3, "enforces_racks": draw.maybe(0.6) and not for_good}


def _with_returning_bookies(ensemble: int, bookies: int) -> dict[str, Any]:
    """Answers that are outstanding for longer than it takes to be replaced and to come back at another position.

    For write sets that differ: only there does the position matter.
    """
    return {"bookies": max(bookies, ensemble + 1), "sync_s_max": 0.6, "patience": 1.0}


def _with_lasting_faults(draw: Draw, drawn: dict[str, Any]) -> dict[str, Any]:
    """Drawn apart from all others. A run that loses bookies often has spare ones for them."""
    faults = [name for name in (*LASTING, MISDIRECTED_READ) if draw.maybe(0.12)]
    changed: dict[str, Any] = {"faults": (*drawn["faults"], *faults), "limbo": draw.maybe(0.5)}
    changed["buggify"] = draw.maybe(0.3)
    changed["cancellers"] = int(draw.maybe(0.15))
    changed["mixed_settings"] = draw.maybe(0.2)
    if draw.maybe(0.3):
        changed |= {"copiers": 1, "bookies": max(drawn["bookies"], min(6, drawn["ensemble"] + 1))}
    if {"lost_bookie", "minor_rot"} & {*faults} and draw.maybe(0.5):
        changed["bookies"] = max(drawn["bookies"], min(6, drawn["ensemble"] + 1))
    return changed


def _pace(draw: Draw) -> dict[str, float]:
    """As many faults in a short run as in a long one: a second costs the same, whatever goes wrong in it.

    Some runs are long, for what takes its time.
    """
    chance = draw.chance
    if draw.maybe(0.1):
        return {"chaos_s": chance.uniform(8.0, 24.0), "fault_every_s": chance.choice((0.5, 1.0, 2.0))}
    return {"chaos_s": chance.uniform(2.0, 8.0), "fault_every_s": chance.choice((0.15, 0.3, 0.8))}


def _with_scenes(draw: Draw, faults: tuple[str, ...]) -> dict[str, Any]:
    """A few of them, few other faults in between, and often a store so slow that much happens around each change."""
    chance = draw.chance
    others = [name for name in faults if draw.maybe(0.3)]
    scenes = chance.sample(SCENES, chance.randint(1, 3))
    return {
        "faults": tuple(dict.fromkeys((*others, *scenes, TIMELY))),
        "chaos_s": chance.uniform(6.0, 14.0),
        "fault_every_s": chance.choice((0.5, 1.5, 3.0)),
        "store_s_max": chance.choice((3e-3, 3e-3, 0.2, 0.5)),
        "term_s": chance.choice((15.0, 15.0, 0.7)),
        "aborts": chance.choice((0.1, 0.7)),
        "resolves": 1.0,
    }


def make_plan(seed: int, profile: str, overrides: Mapping[str, Any]) -> Plan:
    """The seed's own plan with some fields replaced."""
    return replace(plan_of(seed, Seeds(seed).stream("plan"), profile), **overrides)


def _faults(draw: Draw, profile: str) -> list[str]:
    """Some groups of faults are off as a whole, so that others are seen alone."""
    groups = [
        draw.some(group) if draw.maybe(0.7) else [] for group in (NETWORK, PROCESSES, DISKS, STORE, CLOCKS)
    ]
    within = [name for group in groups for name in group]
    beyond = draw.some(BEYOND) or [BEYOND[0]]
    match profile:
        case "calm":
            return []
        case "beyond":
            return [*within, *beyond]
        case _:
            return within
