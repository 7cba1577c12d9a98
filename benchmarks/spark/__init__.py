"""The benchmarks of the Spark source and sink. They need Java: PySpark starts a JVM."""
