"""Input of `dlog append`: from a stream of bytes to messages."""
