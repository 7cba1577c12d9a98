"""What work on the storage's files that no request waits for has in common: its jobs and its pace."""
