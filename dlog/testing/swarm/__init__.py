"""One seed from its plan to its verdict: the clients of the log, and the faults."""
