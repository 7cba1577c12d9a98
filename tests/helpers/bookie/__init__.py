"""Parts of a bookie for its tests: a storage with small limits, entries, raw requests."""
