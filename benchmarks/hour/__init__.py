"""An hour in which a cluster under load loses a bookie, gets a new one, has logs deleted and bits flipped."""
