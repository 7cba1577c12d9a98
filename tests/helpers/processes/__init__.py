"""Real processes: bookies, a cluster of them, ZooKeeper, the command line."""
