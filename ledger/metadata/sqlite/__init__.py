"""The embedded metadata store: one SQLite file."""
