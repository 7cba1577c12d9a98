"""Inputs that failed once: tests/fuzz/kept/TARGET/NAME.bin. Each is part of the corpus, and of the suite."""

from __future__ import annotations

from tests.helpers.repository import ROOT

KEPT = ROOT / "tests" / "fuzz" / "kept"


def kept_inputs(target: str) -> dict[str, bytes]:
    """By name."""
    directory = KEPT / target
    if not directory.is_dir():
        return {}
    return {path.stem: path.read_bytes() for path in sorted(directory.glob("*.bin"))}
