"""Test tools: a whole cluster and your program on one simulated machine (one thread, virtual time, one seed).

    from dlog.testing import SimulatedCluster, simulate

See cluster.py; pytest_plugin.py has the fixtures; `python -m dlog.testing --seeds 1..100` runs our own swarm of
faults. `RealCluster` runs bookie processes instead. Names are loaded on first use, so the plugin costs nothing
where it is not used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dlog.testing.cluster import ClusterConfig, SimulatedCluster, simulate
    from dlog.testing.real_cluster import RealCluster

__all__ = ["ClusterConfig", "RealCluster", "SimulatedCluster", "simulate"]

_OWNERS = {
    "ClusterConfig": "dlog.testing.cluster",
    "RealCluster": "dlog.testing.real_cluster",
    "SimulatedCluster": "dlog.testing.cluster",
    "simulate": "dlog.testing.cluster",
}


def __getattr__(name: str) -> Any:
    if name not in _OWNERS:
        raise AttributeError(f"module 'dlog.testing' has no attribute {name!r}")
    return getattr(import_module(_OWNERS[name]), name)
