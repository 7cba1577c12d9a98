"""What a bookie knows of each ledger besides its entries."""
