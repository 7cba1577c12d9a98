"""Writes, of batches and of streams: tasks write ledgers of their own, the driver publishes all of them or none.

writers.py         Spark's calls
driver.py          before and after the tasks
task.py            what a task does
replays.py         whether a micro-batch that the log has is the same one
"""
