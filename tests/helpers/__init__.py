"""What tests share, each module named by what it gives. Tests import their helpers from here and from nowhere else."""
