"""Batch reads: a plan made once on the driver, and the tasks that execute it; streams use both.

planning.py        from options to partitions
log_partition.py   a partition as Spark sends it to a task
task.py            what a task does
"""
