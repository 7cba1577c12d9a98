"""Checks of one instant: what bookies hold and answer just then. The end of a run shows little of it."""
