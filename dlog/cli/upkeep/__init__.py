"""Commands that keep logs in order: cursors, properties, retention, garbage."""
