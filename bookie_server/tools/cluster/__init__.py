"""Verbs about a cluster as a whole, and what commands ask of all its bookies."""
