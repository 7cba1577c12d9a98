"""Writing a ledger: adds and their acks, changes of the ensemble, and entries that recovery writes again."""
