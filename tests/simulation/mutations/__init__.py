"""Bugs to be planted in production code, to prove that the simulation would find them."""
