"""From a seed that failed: a smaller plan, a file that repeats it, a report."""
