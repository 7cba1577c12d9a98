"""The demonstration behind `dlog demo`: real data, a killed bookie, a takeover, and a proof of every message."""
