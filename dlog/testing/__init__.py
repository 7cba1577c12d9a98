"""A whole cluster, and your program, on one simulated machine: one thread, virtual time, a seed decides.

    from dlog.testing import SimulatedCluster, simulate

See cluster.py; `python -m dlog.testing --seeds 1..100` runs our own swarm of faults.
"""

from dlog.testing.cluster import ClusterConfig, SimulatedCluster, simulate

__all__ = ["ClusterConfig", "SimulatedCluster", "simulate"]
