"""What members hold, and how it gets to others: read and verified, sent, acknowledged."""
