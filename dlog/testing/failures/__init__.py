"""What is made of a seed that failed: a smaller plan, a file, a report."""
