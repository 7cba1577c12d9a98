"""What the choice of bookies asks for and knows: settings, locations, free space. Its decision: core/placement.py."""
