"""Frames, entries and keys captured from Apache BookKeeper 4.18.0 (tests/vectors/README.md), as values."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_DIRECTORY = Path(__file__).parents[2] / "vectors"


@dataclass(frozen=True)
class GoldenFrame:
    """One whole frame, with its length prefix, and what it means."""

    name: str
    is_request: bool
    is_v3: bool
    frame: bytes
    meaning: dict[str, Any]
    closes_connection: bool
    note: str

    @property
    def body(self) -> bytes:
        return self.frame[4:]

    def __str__(self) -> str:
        return self.name


@cache
def load(file_name: str) -> Any:
    return json.loads((_DIRECTORY / file_name).read_text())


@cache
def wire_frames(protocol: str) -> tuple[GoldenFrame, ...]:
    """The frames of `wire-v2.json` or `wire-v3.json`."""
    return tuple(
        _frame(vector["name"], vector, is_v3=protocol == "v3") for vector in load(f"wire-{protocol}.json")
    )


@cache
def conversations() -> dict[str, tuple[GoldenFrame, ...]]:
    """The whole frames of each conversation, in order."""
    return {
        conversation["name"]: tuple(_steps(conversation["name"], conversation["steps"]))
        for conversation in load("conversations.json")
    }


def _steps(name: str, steps: list[dict[str, Any]]) -> Iterator[GoldenFrame]:
    for number, step in enumerate(steps):
        if "frame_hex" in step and not step.get("partial"):
            yield _frame(f"{name}[{number}]", step, is_v3="protobuf" in step["meaning"])


def _frame(name: str, vector: dict[str, Any], *, is_v3: bool) -> GoldenFrame:
    return GoldenFrame(
        name=name,
        is_request=vector["direction"] == "client->bookie",
        is_v3=is_v3,
        frame=bytes.fromhex(vector["frame_hex"]),
        meaning=vector["meaning"],
        closes_connection=vector.get("connection_after") == "bookie closes it",
        note=vector.get("note") or "",
    )
