"""An exactly-once query of Spark whose driver is killed with kill -9, again and again, at points that are drawn."""
