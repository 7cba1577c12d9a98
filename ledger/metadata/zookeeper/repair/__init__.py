"""What BookKeeper's autorecovery keeps below `underreplication`."""
