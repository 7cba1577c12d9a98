"""What a bookie answers: both wire versions, and the rules they share."""
