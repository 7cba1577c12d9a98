"""Scenes that are played once for every callback of one of their processes, and interrupted there."""
