"""What must hold of every history, of simulated and of real processes alike."""
