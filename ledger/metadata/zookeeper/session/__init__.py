"""One ZooKeeper session: kazoo's threads on one side, the event loop on the other."""
