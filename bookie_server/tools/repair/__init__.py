"""The verbs of `bookie` that repair."""
