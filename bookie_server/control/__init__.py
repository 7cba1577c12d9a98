"""What a running bookie does for commands on its own machine, over a Unix socket in its ledger directory."""
