"""From the files that a start finds to a storage that serves."""
