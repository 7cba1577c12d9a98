"""What commands show of a log: as text for people, as JSON for programs. Pure."""
