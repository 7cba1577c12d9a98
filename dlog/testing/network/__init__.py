"""The simulated network: links, connections, and all that can go wrong between two nodes."""
