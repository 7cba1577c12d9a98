"""Real processes under faults: the fault injector, writer and reader processes, their history files."""
