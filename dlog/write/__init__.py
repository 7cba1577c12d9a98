"""One writer of one log: from `append` to the ack, rotation, and the takeover by which it begins."""
