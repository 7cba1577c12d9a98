"""The matrix of clients, bookies, protocol versions and digests: `python -m tests.interop.matrix` prints it."""

from __future__ import annotations

import pytest

from tests.interop.apache_cluster import MixedCluster
from tests.interop.java_client import JavaClient
from tests.interop.matrix.cells import CELLS, MIXES, WIRES, members_of, stage
from tests.interop.matrix.play import Results, play

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("mix", MIXES)
async def test_every_scenario_holds_for_both_clients_and_all_digests(
    mixed: MixedCluster, java: dict[str, JavaClient], mix: str, wire: str
) -> None:
    results = Results()
    async with stage(mixed, java[wire], wire) as both:
        await both.allow(members_of(mixed, mix))
        await play(both, [cell for cell in CELLS if cell.mix == mix and cell.wire == wire], results)
    assert not results.failures, "\n".join(results.failures)
