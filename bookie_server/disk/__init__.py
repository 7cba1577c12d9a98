"""Files, their workers, the store of the index, and what a disk allows."""
