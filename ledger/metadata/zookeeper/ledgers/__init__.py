"""Ledgers in ZooKeeper: their ids, nodes and listing."""
