"""Data directories of earlier releases, which every later one must open."""
