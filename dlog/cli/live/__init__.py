"""Commands that go on showing: top, and info --watch."""
