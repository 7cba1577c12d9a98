"""Sinks: many processes write a batch in parallel, and one compare-and-set publishes it, once.

    opening.py     the driver takes the log over, without a new ledger
    staging.py     each task writes ledgers that no list names yet
    publishing.py  the driver lists all of them, or deletes them

The rules: docs/log-semantics.md#rule-37. Decisions: dlog/core/publication.py.
"""
