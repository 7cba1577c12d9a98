"""One seed from its plan to its verdict: who works on the log, and what goes wrong meanwhile."""
