"""New indexes, made from the files that hold the entries: of a stopped bookie, and of one that goes on serving."""
