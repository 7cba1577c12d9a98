"""Reading a ledger: entries from its bookies, and how far it is confirmed."""
