"""dlog: an unbounded, replicated, strictly fenced log on BookKeeper ledgers."""
