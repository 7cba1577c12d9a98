"""What is lost or damaged at the end of a run, and what the log must do then."""
