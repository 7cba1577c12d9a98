"""A cluster of bookies on this machine, started and watched by this process."""
