"""The simulated metadata store, and the history of what clients did with it."""
