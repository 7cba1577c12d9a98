"""Entries that are written once: blocks that stay in the journal's files, to which the index points."""
