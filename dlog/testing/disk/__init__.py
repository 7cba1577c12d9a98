"""The simulated disk: exact about what is durable, and able to fail."""
