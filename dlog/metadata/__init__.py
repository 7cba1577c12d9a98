"""The log's metadata in the store of the cluster, and the ledgers that no log lists."""
