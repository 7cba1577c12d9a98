"""Scenes that are played once for every turn which one of their processes takes, and interrupted there."""
