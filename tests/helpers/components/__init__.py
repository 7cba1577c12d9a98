"""Fault campaigns of single components: programs that use one, and what happens to them."""
