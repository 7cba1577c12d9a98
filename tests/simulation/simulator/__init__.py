"""Whole runs that test the simulator itself: its swarm, its fault scenes, that a seed repeats."""
