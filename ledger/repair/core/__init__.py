"""Decisions of repair. Pure."""
