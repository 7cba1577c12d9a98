"""Readers of a log, the ends of a log, and what became of an append."""
