"""Files of entries in blocks."""
