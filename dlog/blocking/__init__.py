"""The same client, writer and reader for programs without an event loop."""
