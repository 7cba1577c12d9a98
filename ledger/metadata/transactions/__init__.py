"""MetadataStore as transactions of a small key-value store, which the memory and SQLite drivers supply."""
