"""A simulated loop and disk, for tests of the simulator and of what runs on it."""
