"""Extents: parts of one ledger, and how to find, cut, count and read them. Never fences, changes nothing.

partitions.py      extents and partitions as values; cutting and packing
readable.py        what of a log can be read now, ledger by ledger
extent_reader.py   reads the entries of an extent
trimming.py        whether messages from a position on were trimmed
"""
