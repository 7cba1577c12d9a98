"""A process's view of its cluster's metadata: never authoritative, always whole."""
