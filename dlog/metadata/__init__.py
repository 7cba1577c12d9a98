"""Log metadata in the metadata store of the cluster, and ledgers that no log lists."""
