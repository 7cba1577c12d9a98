"""The list of a log's ledgers, of any length: the newest in the record, the others in immutable pages."""
