"""Copies of what lives in files that are mostly garbage, so that these can be removed."""
