"""A Kafka broker and Spark's Kafka source, to compare the Spark source of dlog with. Nothing of it is distributed."""
