"""The scrubber: reads all that is stored, slowly and again and again, and reports what is damaged."""
