"""Repair: finds entries with fewer copies than their write quorum, and copies them (docs/repair.md)."""
