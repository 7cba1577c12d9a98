"""BookKeeper's own metadata as bytes."""
