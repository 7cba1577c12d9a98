"""Questions with numbers. Each answer is a ratio to a floor, or to a peer, measured in the same run."""
