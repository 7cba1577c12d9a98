"""Fuzz targets, by what they read."""
