"""Writes, of batches and of streams: tasks write ledgers of their own, the driver publishes all of them or none.

writers.py         Spark's calls
driver.py          before and after the tasks
task.py            what a task does
"""
