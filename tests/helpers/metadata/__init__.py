"""Metadata drivers under test, stores that lose answers, and captured values."""
