"""Fuzzing: targets that take any bytes, the tool that runs them, and a corpus from the golden vectors."""
