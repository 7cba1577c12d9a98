"""The demonstration behind `dlog demo`: real data, a killed bookie, a takeover, and the proof that all is there."""
