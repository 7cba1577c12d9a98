"""What a running bookie reports of itself over HTTP: its health, metrics and state."""
