"""What tests of the benchmarks share. The other helpers import nothing of the benchmarks."""
