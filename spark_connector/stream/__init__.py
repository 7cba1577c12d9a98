"""Streams: what Spark calls of a stream, and where each micro-batch begins and ends.

reader.py          Spark's calls
planner.py         the micro-batches of one stream
offsets.py         positions in all logs, as they are in a checkpoint
"""
