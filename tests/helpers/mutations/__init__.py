"""Plants bugs into production code and searches for seeds that find them. The bugs: tests/simulation/mutations."""
