"""Which functions of production code the simulation calls."""
