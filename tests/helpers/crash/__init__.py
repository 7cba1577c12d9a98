"""A bookie's storage under power cuts: disks, workloads, crash images, and what must survive."""
