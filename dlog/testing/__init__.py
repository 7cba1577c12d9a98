"""A whole cluster, and your program, on one simulated machine: one thread, virtual time, a seed decides."""
