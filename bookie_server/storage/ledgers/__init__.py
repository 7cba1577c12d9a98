"""What a bookie knows of each ledger in addition to its entries."""
