"""The `bookie` command: run a bookie, look at one, repair one, prepare a cluster."""
