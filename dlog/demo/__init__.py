"""`dlog demo`: append real data, kill a bookie, take the log over, verify every message."""
