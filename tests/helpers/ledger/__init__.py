"""The ledger client among scripted or recorded bookies, and transcripts of its protocol machines."""
