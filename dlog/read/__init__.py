"""Readers of a log, the tail of a log, and the outcome of an append."""
