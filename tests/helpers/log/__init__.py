"""The log client over scripted ledgers and stores, and producers that record every outcome."""
