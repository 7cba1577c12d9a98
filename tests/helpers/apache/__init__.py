"""Apache BookKeeper's bookies and its Java client, as processes."""
