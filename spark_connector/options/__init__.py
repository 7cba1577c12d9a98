"""Options of reads, streams and writes: checked before anything is opened, each error names the valid values.

read_options.py    of a batch; the base of a stream's
stream_options.py  of a stream, in addition
sink_options.py    of a write
tables.py          those that a table of Spark's catalog keeps
"""
