"""The simulated machine: a loop with virtual time, nodes, clocks, chance, and the trace."""
