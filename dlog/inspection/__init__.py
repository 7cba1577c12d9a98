"""Answers about a log that fence nothing and write nothing."""
