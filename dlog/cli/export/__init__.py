"""`dlog export`: messages of a log into a file that other programs read."""
