"""Captured frames and conversations, and codecs by name."""
