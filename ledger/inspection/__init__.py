"""What each bookie holds of a ledger. Fences nothing and writes nothing."""
